// Browsers start no workers for pages that are opened as files. There a hidden frame runs the worker's script instead,
// so that the site's search needs no server. (Material's own stand-in of this kind would be loaded from the network.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #waiting = [];
    #inside = null;
    #frame = document.createElement("iframe");

    constructor(url) {
      super();
      this.#frame.hidden = true;
      this.#frame.srcdoc = "<!doctype html>";
      this.#frame.addEventListener("load", () => this.#run(new URL(url, document.baseURI).href), { once: true });
      document.body.append(this.#frame);
    }

    postMessage(data) {
      if (this.#inside) {
        this.#inside.dispatchEvent(new MessageEvent("message", { data }));
      } else {
        this.#waiting.push(data);
      }
    }

    terminate() {
      this.#frame.remove();
    }

    #run(url) {
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => {
        this.#inside = inside;
        this.#waiting.splice(0).forEach((data) => this.postMessage(data));
      });
      inside.document.body.append(script);
    }
  };
}
