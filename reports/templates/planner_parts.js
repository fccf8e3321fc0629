// An element with attributes and children; `on...` attributes are listeners, null and false ones are left out.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

// A logarithmic slider has 16 positions in each doubling: 1, 1 + 1/16, 1 + 2/16, ... times a power of two.
const POSITIONS = 16;

function positionOf(value, scale) {
  if (scale.step) return value;
  const octave = Math.floor(Math.log2(Math.max(value, 1e-6)));
  return octave * POSITIONS + Math.round((value / 2 ** octave - 1) * POSITIONS);
}

function valueAt(position, scale) {
  if (scale.step) return Number(position);
  const octave = Math.floor(position / POSITIONS);
  const value = 2 ** octave * (1 + (position - octave * POSITIONS) / POSITIONS);
  return scale.fractional ? Number(value.toPrecision(4)) : Math.max(scale.low, Math.round(value));
}

// A labelled number with a slider under it. scale: low, high, lowest, step (0: logarithmic), fractional.
// Gives {node, set(value)}; `changed(value)` is called with every value that makes sense.
function control(id, label, scale, changed) {
  const describe = (value) => range.setAttribute("aria-valuetext", withCommas(String(value)));
  const wrong = element("p", { class: "planner-wrong", id: `${id}-wrong`, hidden: true });
  const number = element("input", { type: "number", id, min: scale.lowest, step: scale.fractional ? "any" : 1, inputmode: scale.fractional ? "decimal" : "numeric" });
  const range = element("input", {
    type: "range", "aria-label": `${label}, slider`, min: positionOf(scale.low, scale), max: positionOf(scale.high, scale), step: scale.step || 1,
  });
  const mark = (message) => {
    wrong.textContent = message;
    wrong.hidden = !message;
    if (message) number.setAttribute("aria-invalid", "true");
    else number.removeAttribute("aria-invalid");
    if (message) number.setAttribute("aria-describedby", wrong.id);
    else number.removeAttribute("aria-describedby");
  };
  number.addEventListener("input", () => {
    const value = number.valueAsNumber;
    const fits = Number.isFinite(value) && value >= scale.lowest && value > (scale.fractional ? 0 : -1) && value <= 1e9;
    if (!fits || !(scale.fractional || Number.isInteger(value))) {
      mark(scale.fractional ? "a number above 0" : `a whole number from ${scale.lowest} on, at most a thousand million`);
      return;
    }
    mark("");
    range.value = positionOf(value, scale);
    describe(value);
    changed(value);
  });
  range.addEventListener("input", () => {
    const value = valueAt(Number(range.value), scale);
    mark("");
    number.value = value;
    describe(value);
    changed(value);
  });
  const set = (value) => {
    mark("");
    number.value = value;
    range.value = positionOf(value, scale);
    describe(value);
  };
  return { node: element("div", { class: "planner-control" }, element("label", { for: id }, label), number, range, wrong), set };
}

// The roofline: attainable rate against arithmetic intensity, with the products as points. SVG of the given width.
function roofline(points, inputs, width) {
  const SVG = "http://www.w3.org/2000/svg";
  const draw = (tag, attributes, text = "") => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  };
  const height = 210, left = 8, right = width - 8, top = 34, bottom = height - 34;
  const ridge = inputs.rate / inputs.bandwidth;
  const all = [ridge, ...points.map((point) => point.intensity)];
  const low = Math.log2(Math.min(...all)) - 2, high = Math.log2(Math.max(...all)) + 2;
  const x = (intensity) => left + ((Math.log2(intensity) - low) / (high - low)) * (right - left);
  const floor = Math.log2(2 ** low * inputs.bandwidth), ceiling = Math.log2(inputs.rate);
  const y = (rate) => bottom - ((Math.log2(rate) - floor) / (ceiling - floor)) * (bottom - top);
  const attainable = (intensity) => Math.min(inputs.rate, intensity * inputs.bandwidth);
  const said = points.map((point) => `${point.title} ${show(point.intensity, "FLOP/B")}, ${point.intensity < ridge ? "below" : "above"} the ridge`);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Roofline. Ridge point ${show(ridge, "FLOP/B")}. ${said.join("; ")}.` });
  svg.append(
    draw("line", { class: "planner-axis", x1: left, x2: right, y1: bottom, y2: bottom }),
    draw("line", { class: "planner-ridge", x1: x(ridge), x2: x(ridge), y1: top, y2: bottom }),
    draw("path", { class: "planner-roof", d: `M${x(2 ** low)} ${y(attainable(2 ** low))} L${x(ridge)} ${top} L${right} ${top}` }),
    draw("text", { x: right, y: top - 12, "text-anchor": "end" }, show(inputs.rate, "FLOP/s")),
    draw("text", { x: left, y: height - 14 }, "FLOP/B"),
    draw("text", { x: x(ridge), y: height - 14, "text-anchor": "middle" }, `ridge ${showNumber(ridge)}`),
  );
  const drawn = [];
  for (const point of points) {
    const at = x(point.intensity);
    const near = drawn.find((other) => Math.abs(other.at - at) < 110);
    if (near) near.titles.push(point.title);
    else drawn.push({ at, titles: [point.title], rate: attainable(point.intensity), fed: point.intensity >= ridge });
    svg.append(draw("circle", { cx: at, cy: y(attainable(point.intensity)), r: 5, class: point.intensity >= ridge ? "planner-fed" : "" }));
  }
  for (const each of drawn) {
    const end = each.at > width * 0.7;
    svg.append(draw("text", { class: "planner-point-label", x: each.at + (end ? 5 : -5), y: y(each.rate) + 22, "text-anchor": end ? "end" : "start" }, each.titles.join(", ")));
  }
  return svg;
}
