/* Runs a written policy on a Cortex-M4 without an operating system: start-up code, and files of the host by semihosting.
 *
 * inputs.bin has for each step an int32, 1 where the policy starts anew, and the struct of inputs. commands.bin gets for
 * each an int32, what the step returned, and the struct of the command; figures.bin three uint32: bytes of stack,
 * ticks of the processor's clock within the steps, and steps.
 *
 * Compile with POLICY as the policy's name and POLICY_HEADER as its header.
 */
#include POLICY_HEADER

#include <stddef.h>
#include <string.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define PAINT 0x5AFE5AFEu
#define STACK_WORDS 16384u

extern uint32_t data_begin[], data_end[], data_stored[], zero_begin[], zero_end[], stack_top[];

/* Requests of Arm's semihosting, "Semihosting for AArch32 and AArch64". */
enum { OPEN = 0x01, CLOSE = 0x02, WRITE = 0x05, READ = 0x06, LEAVE = 0x18 };
enum { READ_BYTES = 1, WRITE_BYTES = 5 };
enum { STOPPED = 0x20026, FAILED = 0x20024 };

static uint32_t ask(uint32_t request, const void *parameter)
{
    register uint32_t r0 __asm__("r0") = request;
    register const void *r1 __asm__("r1") = parameter;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void leave(uint32_t why)
{
    (void)ask(LEAVE, (const void *)(uintptr_t)why);
    for (;;) {
    }
}

static uint32_t opened(const char *name, uint32_t mode)
{
    const uint32_t block[3] = {(uint32_t)(uintptr_t)name, mode, (uint32_t)strlen(name)};
    return ask(OPEN, block);
}

/* Return whether all bytes were read or written. */
static int moved(uint32_t request, uint32_t file, const void *bytes, size_t count)
{
    const uint32_t block[3] = {file, (uint32_t)(uintptr_t)bytes, (uint32_t)count};
    return ask(request, block) == 0;
}

/* The system timer counts down from 2^24 - 1 with the processor's clock. */
static volatile uint32_t *const timer_control = (uint32_t *)0xE000E010u;
static volatile uint32_t *const timer_reload = (uint32_t *)0xE000E014u;
static volatile uint32_t *const timer_value = (uint32_t *)0xE000E018u;

static JOIN(POLICY, _state) state;
static struct {
    int32_t anew;
    JOIN(POLICY, _inputs) inputs;
} given;
static struct {
    int32_t status;
    JOIN(POLICY, _command) command;
} answer;

static void run(void)
{
    const uint32_t from = opened("inputs.bin", READ_BYTES);
    const uint32_t to = opened("commands.bin", WRITE_BYTES);
    uint32_t figures[3] = {0, 0, 0};

    if (from == UINT32_MAX || to == UINT32_MAX) {
        leave(FAILED);
    }
    *timer_reload = 0xFFFFFFu;
    *timer_value = 0;
    *timer_control = 5u;
    while (moved(READ, from, &given, sizeof given)) {
        uint32_t before, after;
        if (given.anew) {
            JOIN(POLICY, _reset)(&state);
        }
        before = *timer_value;
        answer.status = JOIN(POLICY, _step)(&state, &given.inputs, &answer.command);
        after = *timer_value;
        figures[1] += (before - after) & 0xFFFFFFu;
        figures[2]++;
        if (!moved(WRITE, to, &answer, sizeof answer)) {
            leave(FAILED);
        }
    }
    const uint32_t *untouched = stack_top - STACK_WORDS;
    while (*untouched == PAINT) {
        untouched++;
    }
    figures[0] = (uint32_t)(stack_top - untouched) * 4u;
    const uint32_t last = opened("figures.bin", WRITE_BYTES);
    if (!moved(WRITE, last, figures, sizeof figures)) {
        leave(FAILED);
    }
    (void)ask(CLOSE, &to);
    (void)ask(CLOSE, &last);
    leave(STOPPED);
}

void begin(void);
void begin(void)
{
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* the floating-point unit is on */
    __asm__ volatile("dsb\n isb" ::: "memory");
    memcpy(data_begin, data_stored, (size_t)((char *)data_end - (char *)data_begin));
    memset(zero_begin, 0, (size_t)((char *)zero_end - (char *)zero_begin));
    volatile uint32_t *here;
    __asm__ volatile("mov %0, sp" : "=r"(here));
    for (volatile uint32_t *word = stack_top - STACK_WORDS; word < here; word++) {
        *word = PAINT;
    }
    run();
}

static void fault(void)
{
    leave(FAILED);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top, (const void *)begin, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault,
};
