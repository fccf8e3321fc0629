const PLANNER = {{ data }};
const FORMULAS = {{ formulas }};

// The least s in low..high-1 whose value is at most `factor` times the least of all; low where there is none.
function firstWithin(factor, low, high, value) {
  const values = [];
  for (let s = low; s < high; s += 1) values.push(value(s));
  if (!values.length) return low;
  const least = values.reduce((a, b) => Math.min(a, b));
  return low + values.findIndex((each) => each <= factor * least);
}

function withCommas(text) {
  const [whole, fraction] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

// Numbers are shown by the rules of refkit/planner/units.py.
function showNumber(value) {
  const size = Math.abs(value);
  return size > 0 && size < 0.0005 ? "<0.001" : showRounded(value, size < 10 ? 3 : size < 100 ? 1 : 0);
}

function showRounded(value, decimals) {
  const scale = 10 ** decimals;
  const text = withCommas((Math.floor(value * scale + 0.5) / scale).toFixed(decimals));
  return decimals ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}

function show(value, unit) {
  if (unit === "text") return String(value);
  if (unit === "flag") return value ? "yes" : "no";
  if (unit === "count") return withCommas(Math.floor(value + 0.5).toFixed(0));
  if (unit === "fraction") return `${showRounded(100 * value, value < 1 ? 1 : 0)} %`;
  if (unit in PLANNER.suffixes) return showNumber(value) + PLANNER.suffixes[unit];
  if (value === 0) return `0 ${unit}`;
  const scales = PLANNER.scales[unit];
  const early = unit === "FLOP" ? PLANNER.early : 1;
  const [scale, name] = scales.find(([each]) => value >= early * each) || scales[scales.length - 1];
  return `${showNumber(value / scale)} ${name}`;
}

// Every figure of a sheet by group and name; groups whose parameter is left out are missing.
function evaluate(operator, inputs) {
  const groups = {};
  for (const group of PLANNER.sheets[operator].groups) {
    if (group.needs && !inputs[group.needs]) continue;
    const own = {};
    for (const figure of group.figures) own[figure.name] = FORMULAS[operator][group.name][figure.name](inputs, groups, own);
    groups[group.name] = own;
  }
  return groups;
}

function valueOf(fullName, inputs, groups) {
  const [group, name] = fullName.split(".");
  return name === undefined ? inputs[group] : groups[group][name];
}

// A formula or sentence with values in place of names.
function filled(operator, parts, inputs, groups) {
  const units = PLANNER.sheets[operator].units;
  return parts.map((part) => (typeof part === "string" ? part : show(valueOf(part[0], inputs, groups), units[part[0]]))).join("");
}

// The sentences of the summary whose groups stand.
function standing(operator, groups) {
  return PLANNER.sheets[operator].summary.filter((parts) =>
    parts.every((part) => typeof part === "string" || !part[0].includes(".") || part[0].split(".")[0] in groups));
}
