"""The viewer's page for browsers without WebGL, such as a computer's without graphics: the panel, without the scene.

viser's page takes its messages in the loop that draws the scene, so that without WebGL not even the panel appears. A
script before its own gives it a context then that draws nothing.
"""

from __future__ import annotations

_NOTICE = "This browser has no WebGL: figures, curves and buttons are here, the scene is not."

_SCRIPT = """<script>
(() => {
  const kinds = ["webgl2", "webgl", "experimental-webgl"], real = HTMLCanvasElement.prototype.getContext;
  if (real.call(document.createElement("canvas"), "webgl2")) return;
  const known = window.WebGL2RenderingContext || {};
  const language = "WebGL GLSL ES 3.00";
  const texts = {VERSION: "WebGL 2.0", SHADING_LANGUAGE_VERSION: language, VENDOR: "none", RENDERER: "none"};
  const four = ["VIEWPORT", "SCISSOR_BOX", "COLOR_CLEAR_VALUE", "COLOR_WRITEMASK"];
  const counts = ["ACTIVE_UNIFORMS", "ACTIVE_ATTRIBUTES", "ACTIVE_UNIFORM_BLOCKS"];
  const numbers = new Map(), names = new Map();
  const number = (name) => {
    if (!numbers.has(name)) {
      const value = known[name] === undefined ? 100000 + numbers.size : known[name];
      numbers.set(name, value);
      names.set(value, name);
    }
    return numbers.get(name);
  };
  [...Object.keys(texts), ...four, ...counts].forEach(number);
  const answers = {
    getParameter: (what) => {
      const name = names.get(what);
      return name in texts ? texts[name] : four.includes(name) ? new Int32Array(4) : 4096;
    },
    getExtension: () => null,
    getSupportedExtensions: () => [],
    getContextAttributes: () => ({alpha: true, antialias: false, depth: true, stencil: false}),
    getShaderPrecisionFormat: () => ({precision: 23, rangeMin: 127, rangeMax: 127}),
    getProgramParameter: (program, what) => (counts.includes(names.get(what)) ? 0 : true),
    getShaderParameter: () => true,
    getProgramInfoLog: () => "",
    getShaderInfoLog: () => "",
    getError: () => 0,
    getAttribLocation: () => -1,
    getUniformLocation: () => null,
    isContextLost: () => false,
    checkFramebufferStatus: () => number("FRAMEBUFFER_COMPLETE"),
    clientWaitSync: () => number("ALREADY_SIGNALED"),
  };
  const nothing = (canvas) => new Proxy({}, {
    get: (target, name) => {
      if (name === "canvas") return canvas;
      if (name === "drawingBufferWidth") return canvas.width;
      if (name === "drawingBufferHeight") return canvas.height;
      if (typeof name !== "string") return undefined;
      if (name in target) return target[name];
      if (/^[A-Z0-9_]+$/.test(name)) return number(name);
      return name in answers ? answers[name] : () => ({});
    },
  });
  const made = new WeakMap();
  HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
    if (!kinds.includes(kind)) return real.call(this, kind, ...more);
    if (!made.has(this)) made.set(this, nothing(this));
    return made.get(this);
  };
  document.addEventListener("DOMContentLoaded", () => {
    const notice = document.createElement("div");
    notice.textContent = "NOTICE";
    notice.style.cssText = "position:fixed;left:1em;bottom:1em;max-width:20em;font:14px sans-serif;color:#495057";
    document.body.appendChild(notice);
  });
})();
</script>"""


def page_for_all(page: str) -> str:
    """Return viser's page, which then works without WebGL, too: its panel does."""
    head = page.index("<head>") + len("<head>")
    return page[:head] + _SCRIPT.replace("NOTICE", _NOTICE) + page[head:]
