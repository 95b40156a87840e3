
// Names of columns that are numbers. Those without a weight have no place, and are a part of a row's length only.

const NAMES = new Map(MODEL.names.map(([column, name]) => [name, column]));

function namedColumns(row) {
  if (row === null || typeof row !== "object" || NAMES.size === 0) {
    const shape = NAMES.size ? "an array, a Map of columns or an object of names" : "an array or a Map of columns";
    throw new TypeError(`a row must be ${shape}, got ${JSON.stringify(row)}`);
  }
  return Object.entries(row).map(([name, value]) => [NAMES.get(name) ?? `unknown ${name}`, value]);
}
