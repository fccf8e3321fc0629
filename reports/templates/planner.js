const byId = (id) => document.getElementById(id);
const section = byId("planner");
const standalone = "standalone" in section.dataset;
const HINT = "Point at a number to see its formula. With the keyboard: Tab to a table, then the arrow keys.";
const state = { operator: "linear", device: PLANNER.defaultDevice, format: "bfloat16", tflops: null, bandwidth: null, sms: null, sizes: {} };
let inputs = {};
let groups = {};
let numbers = new Map(); // full name of a figure -> the buttons that show it
let controls = {};
let shape = ""; // which tables stand; they are built again only when that changes

const sheetOf = () => PLANNER.sheets[state.operator];
const figureOf = (fullName) => {
  const [group, name] = fullName.split(".");
  const found = sheetOf().groups.find((each) => each.name === group);
  return { group: found, figure: found.figures.find((each) => each.name === name) };
};
const RATES = { tflops: "rate", bandwidth: "bandwidth", sms: "SMs" }; // what is given by hand: the input that it sets
const uses = (input) => sheetOf().groups.some((group) => group.figures.some((figure) => figure.parts.some((part) => part[0] === input && typeof part !== "string")));
const sizes = () => state.sizes[state.operator];

function computeInputs() {
  const machine = { ...PLANNER.devices[state.device].formats[state.format] };
  if (state.tflops !== null) machine.rate = state.tflops * 1e12;
  if (state.bandwidth !== null) machine.bandwidth = state.bandwidth * 1e9;
  if (state.sms !== null) machine.SMs = state.sms;
  return { ...machine, ...sizes() };
}

// ---- numbers and their formulas

function explanation(fullName) {
  const { group, figure } = figureOf(fullName);
  const value = show(groups[group.name][figure.name], figure.unit);
  const steps = [figure.text, filled(state.operator, figure.parts, inputs, groups), value];
  return { title: `${group.title}: ${figure.label}`, text: steps.filter((each, index) => steps.indexOf(each) === index).join(" = "), note: figure.note };
}

function explain(fullName) {
  const bar = byId("planner-bar");
  for (const used of section.querySelectorAll(".planner-used")) used.classList.remove("planner-used");
  bar.dataset.figure = fullName || "";
  if (!fullName) {
    bar.replaceChildren(element("p", { class: "planner-hint" }, HINT));
    return;
  }
  const { title, text, note } = explanation(fullName);
  bar.replaceChildren(element("p", {}, element("strong", {}, title)), element("p", {}, text), ...(note ? [element("p", { class: "planner-note" }, note)] : []));
  for (const part of figureOf(fullName).figure.parts) {
    if (typeof part === "string") continue;
    for (const button of numbers.get(part[0]) || []) button.classList.add("planner-used");
    const used = controls[part[0]] || controls[Object.keys(RATES).find((name) => RATES[name] === part[0])];
    if (used) used.node.classList.add("planner-used");
  }
}

function numberButton(fullName) {
  const button = element("button", {
    type: "button", class: "planner-number", "data-figure": fullName,
    onmouseenter: () => explain(fullName), onfocus: () => explain(fullName), onclick: () => button.focus(),
  });
  if (!numbers.has(fullName)) numbers.set(fullName, []);
  numbers.get(fullName).push(button);
  return button;
}

// One stop of the Tab key for each box of numbers; the arrow keys move inside it.
function roving(box) {
  const buttons = () => Array.from(box.querySelectorAll(".planner-number")).filter((each) => each.offsetParent !== null);
  const settle = (chosen) => buttons().forEach((each) => each.setAttribute("tabindex", each === chosen ? "0" : "-1"));
  box.addEventListener("focusin", (event) => event.target.classList.contains("planner-number") && settle(event.target));
  box.addEventListener("keydown", (event) => {
    const list = buttons();
    const index = list.indexOf(event.target);
    if (index < 0) return;
    const here = list[index].getBoundingClientRect();
    const steps = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: list.length - 1 };
    let next = list[steps[event.key]];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const sign = event.key === "ArrowDown" ? 1 : -1;
      const distance = (each) => {
        const there = each.getBoundingClientRect();
        return (sign * (there.top - here.top)) * 1000 + Math.abs(there.right - here.right);
      };
      next = list.filter((each) => sign * (each.getBoundingClientRect().top - here.top) > 4).sort((a, b) => distance(a) - distance(b))[0];
    }
    if (event.key in steps || event.key.startsWith("Arrow")) event.preventDefault();
    if (next) next.focus();
  });
  settle(buttons()[0]);
}

// ---- tables

// The labels of the groups' figures in order, each with the figure that every group has under it.
function rowsOf(table) {
  const longest = table.reduce((a, b) => (b.figures.length > a.figures.length ? b : a));
  return longest.figures.map((figure) => ({ figure, figures: table.map((group) => group.figures.find((each) => each.name === figure.name)) }));
}

function cell(group, figure, label) {
  if (!figure) return element("td", { class: "planner-blank" }, "–");
  const fill = figure.unit === "fraction" ? [element("i", { class: "planner-fill", "data-fill": `${group.name}.${figure.name}` })] : [];
  return element("td", { "data-label": label, class: figure.unit === "text" ? "planner-word" : null }, numberButton(`${group.name}.${figure.name}`), ...fill);
}

function about(table) {
  const said = table.filter((group) => group.about);
  return element("ul", { class: "planner-key" }, ...said.map((group) => element("li", {}, element("b", {}, group.title), `: ${group.about}`)));
}

function columnTable(table, heading) {
  const words = (group) => element("th", { scope: "col" }, group.title);
  const rows = rowsOf(table).filter(({ figure }) => !figure.step || byId("planner-steps").checked);
  const lines = rows.map(({ figure, figures }) => element("tr", { class: figure.step ? "planner-step" : null },
    element("th", { scope: "row" }, figure.label), ...table.map((group, index) => {
      const made = cell(group, figures[index], group.title);
      made.classList.remove("planner-word");
      return made;
    })));
  return [element("div", { class: "planner-scroll" }, element("table", {}, element("caption", { class: "planner-unseen" }, heading),
    element("thead", {}, element("tr", {}, element("td", {}), ...table.map(words))), element("tbody", {}, ...lines))), about(table)];
}

function rowTable(table, heading) {
  const rows = rowsOf(table);
  const head = rows.map(({ figure }) => element("th", { scope: "col", class: figure.unit === "text" ? "planner-word" : null }, figure.label));
  const lines = table.map((group, index) => element("tr", {}, element("th", { scope: "row" }, group.title),
    ...rows.map(({ figure, figures }) => cell(group, figures[index], figure.label))));
  return [element("div", { class: "planner-scroll" }, element("table", {}, element("caption", { class: "planner-unseen" }, heading),
    element("thead", {}, element("tr", {}, element("td", {}), ...head)), element("tbody", {}, ...lines))), about(table)];
}

function lists(table) {
  return [element("div", { class: "planner-lists" }, ...table.map((group) => element("div", {}, element(standalone ? "h3" : "h4", { class: "planner-subheading" }, group.title),
    element("dl", {}, ...group.figures.flatMap((figure) => [element("dt", {}, figure.label), element("dd", {}, numberButton(`${group.name}.${figure.name}`))])))))];
}

function buildResults() {
  numbers = new Map();
  byId("planner-summary").replaceChildren(...standing(state.operator, groups).map((parts) => element("p", {}, ...parts.map((part) => {
    if (typeof part === "string") return part;
    return part[0].includes(".") ? numberButton(part[0]) : element("b", { "data-input": part[0] });
  }))));
  const boxes = [];
  for (const [name, heading] of Object.entries(PLANNER.tables)) {
    const table = sheetOf().groups.filter((group) => group.table === name && group.name in groups);
    if (!table.length) continue;
    const make = name === "totals" ? lists : name === "ledger" ? rowTable : columnTable;
    boxes.push(element("div", {}, element(standalone ? "h2" : "h3", { class: "planner-heading" }, heading), ...make(table, heading)));
  }
  byId("planner-tables").replaceChildren(...boxes);
  [byId("planner-summary"), ...boxes].forEach(roving);
}

// ---- what changes with every input

let newsTimer = 0;

function update() {
  inputs = computeInputs();
  groups = evaluate(state.operator, inputs);
  const now = [state.operator, byId("planner-steps").checked, ...Object.keys(groups)].join();
  if (now !== shape) {
    shape = now;
    buildResults();
    explain(null);
  }
  const units = sheetOf().units;
  for (const [fullName, buttons] of numbers) {
    const text = show(valueOf(fullName, inputs, groups), units[fullName]);
    const { text: formula, note } = explanation(fullName);
    for (const button of buttons) {
      button.textContent = text;
      button.setAttribute("aria-description", note ? `${formula}; ${note}` : formula);
    }
  }
  for (const each of section.querySelectorAll("[data-input]")) each.textContent = show(inputs[each.dataset.input], units[each.dataset.input]);
  for (const bar of section.querySelectorAll("[data-fill]")) bar.style.setProperty("--fill", `${Math.min(100, 100 * valueOf(bar.dataset.fill, inputs, groups))}%`);
  if (byId("planner-bar").dataset.figure) explain(byId("planner-bar").dataset.figure);
  drawRoofline();
  byId("planner-command").textContent = command();
  clearTimeout(newsTimer);
  newsTimer = setTimeout(() => {
    const [first] = standing(state.operator, groups);
    byId("planner-news").textContent = filled(state.operator, first, inputs, groups);
    if (standalone) history.replaceState(null, "", `#${address()}`);
  }, 700);
}

function drawRoofline() {
  const figure = byId("planner-roofline");
  const points = sheetOf().groups.filter((group) => group.table === "gemms" && group.name in groups)
    .map((group) => ({ title: group.title, intensity: groups[group.name].intensity }));
  figure.hidden = !points.length;
  if (points.length) figure.replaceChildren(roofline(points, inputs, Math.max(280, figure.clientWidth || 600)));
}

function command() {
  const words = ["python -m refkit.verify plan", state.operator];
  for (const each of sheetOf().parameters) {
    const value = sizes()[each.name];
    const option = each.name.length === 1 ? `-${each.name}` : `--${each.name.replaceAll("_", "-")}`;
    if (each.unit === "flag") words.push(...(value ? [option] : []));
    else if (each.tuning ? value !== each.default : value || each.lowest) words.push(option, value);
  }
  if (uses("rate")) words.push("--dtype", state.format);
  words.push("--device", state.device);
  for (const [name, input] of Object.entries(RATES)) if (state[name] !== null && uses(input)) words.push(`--${name}`, state[name]);
  return words.join(" ");
}

// ---- inputs

function buildSizes() {
  const boxes = { false: [], true: [] };
  for (const name of Object.keys(controls)) if (!(name in RATES)) delete controls[name];
  for (const each of sheetOf().parameters) {
    const id = `planner-size-${each.name}`;
    const changed = (value) => {
      sizes()[each.name] = value;
      update();
    };
    if (each.unit === "flag") {
      const box = element("input", { type: "checkbox", id, onchange: () => changed(box.checked ? 1 : 0) });
      controls[each.name] = { node: element("div", { class: "planner-check" }, box, element("label", { for: id }, each.label)), set: (value) => { box.checked = Boolean(value); } };
    } else {
      controls[each.name] = control(id, each.label + (each.unit === "B" ? " (B)" : ""), each, changed);
    }
    controls[each.name].set(sizes()[each.name]);
    boxes[each.tuning].push(controls[each.name].node);
  }
  byId("planner-sizes").replaceChildren(...boxes[false]);
  byId("planner-tuning").replaceChildren(...boxes[true]);
  byId("planner-tuning-box").hidden = !boxes[true].length;
  byId("planner-about").textContent = sheetOf().about;
  for (const [name, input] of Object.entries(RATES)) controls[name].node.hidden = !uses(input);
  byId("planner-format-box").hidden = !uses("rate");
}

function buildRates() {
  const rate = { low: 1, high: 8192, lowest: 0, step: 0, fractional: true };
  const given = (name) => (value) => {
    state[name] = value;
    update();
  };
  controls.tflops = control("planner-tflops", "TFLOP/s", rate, given("tflops"));
  controls.bandwidth = control("planner-bandwidth", "memory GB/s", { ...rate, low: 64, high: 16384 }, given("bandwidth"));
  controls.sms = control("planner-sms", "multiprocessors", { low: 8, high: 256, lowest: 1, step: 1 }, given("sms"));
  byId("planner-rates").replaceChildren(controls.tflops.node, controls.bandwidth.node, controls.sms.node);
}

// The device's own figures, unless they were given by hand.
function showMachine() {
  const device = PLANNER.devices[state.device];
  const has = Object.keys(device.formats);
  if (!has.includes(state.format)) state.format = has.includes("float16") ? "float16" : has[0];
  byId("planner-device").value = state.device;
  for (const option of byId("planner-format").options) option.disabled = !has.includes(option.value);
  byId("planner-format").value = state.format;
  const own = device.formats[state.format];
  controls.tflops.set(state.tflops ?? Number((own.rate / 1e12).toPrecision(6)));
  controls.bandwidth.set(state.bandwidth ?? Number((own.bandwidth / 1e9).toPrecision(6)));
  controls.sms.set(state.sms ?? own.SMs);
  byId("planner-source").textContent = `Figures: ${device.source}.`;
}

function defaults() {
  for (const [name, sheet] of Object.entries(PLANNER.sheets)) state.sizes[name] = Object.fromEntries(sheet.parameters.map((each) => [each.name, each.default]));
  Object.assign(state, { device: PLANNER.defaultDevice, format: "bfloat16", tflops: null, bandwidth: null, sms: null });
}

function showAll() {
  section.querySelector(`input[name="planner-layer"][value="${state.operator}"]`).checked = true;
  showMachine();
  buildSizes();
  update();
}

// ---- the plan in the page's address, so that it can be sent to someone

function address() {
  const given = Object.keys(RATES).filter((name) => state[name] !== null).map((name) => [name, state[name]]);
  return `${state.operator}?${new URLSearchParams([...Object.entries(sizes()), ["device", state.device], ["format", state.format], ...given])}`;
}

function readAddress() {
  const [operator, query] = decodeURIComponent(location.hash.slice(1)).split("?");
  if (!Object.hasOwn(PLANNER.sheets, operator)) return;
  state.operator = operator;
  const asked = new URLSearchParams(query || "");
  if (Object.hasOwn(PLANNER.devices, asked.get("device"))) state.device = asked.get("device");
  if (Object.hasOwn(PLANNER.formats, asked.get("format"))) state.format = asked.get("format");
  for (const name of Object.keys(RATES)) if (Number(asked.get(name)) > 0) state[name] = Number(asked.get(name));
  for (const each of sheetOf().parameters) {
    const value = Number(asked.get(each.name) ?? NaN);
    if (Number.isInteger(value) && value >= each.lowest && value <= 1e9) sizes()[each.name] = each.unit === "flag" ? Math.min(value, 1) : value;
  }
}

// ---- beginning

for (const [name, device] of Object.entries(PLANNER.devices)) byId("planner-device").append(element("option", { value: name }, device.title));
for (const [name, format] of Object.entries(PLANNER.formats)) byId("planner-format").append(element("option", { value: name }, name));
byId("planner-layers").addEventListener("change", (event) => {
  state.operator = event.target.value;
  buildSizes();
  update();
});
for (const name of ["device", "format"]) {
  byId(`planner-${name}`).addEventListener("change", (event) => {
    state[name] = event.target.value;
    Object.assign(state, name === "device" ? { tflops: null, bandwidth: null, sms: null } : { tflops: null });
    showMachine();
    update();
  });
}
byId("planner-inputs").addEventListener("submit", (event) => event.preventDefault());
byId("planner-steps").addEventListener("change", update);
byId("planner-reset").addEventListener("click", () => {
  defaults();
  showAll();
});
byId("planner-copy").addEventListener("click", async (event) => {
  const button = event.currentTarget;
  try {
    await navigator.clipboard.writeText(byId("planner-command").textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(byId("planner-command"));
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});
section.addEventListener("keydown", (event) => event.key === "Escape" && explain(null));
new ResizeObserver(drawRoofline).observe(byId("planner-results"));
defaults();
buildRates();
if (standalone) {
  readAddress();
  addEventListener("hashchange", () => {
    readAddress();
    showAll();
  });
}
showAll();
