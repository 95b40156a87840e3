// How rows are scored; MODEL, above, is all that is learned.

const REAL = MODEL.dtype === "float32" ? Math.fround : (number) => number;
const WEIGHTS = MODEL.vectors.map(({ indices, weights, starts, classes, normalize, scales }) => ({
  at: new Map(indices.map((column, place) => [column, place])),
  weights: Float64Array.from(weights, REAL),
  starts,
  classes,
  normalize,
  scales: scales && new Map(scales.indices.map((column, place) => [column, scales.values[place]])),
}));
const IS_BINARY = MODEL.intercepts.length === 1;
const SLOTS = new Map(MODEL.products?.features.map((column, place) => [column, place + 1]));

/** The labels; of two, the score speaks for the second. */
export const classes = MODEL.classes;
/** Of two classes: a score above it is the second. */
export const threshold = MODEL.threshold;

/**
 * The score of a row, a number; of more than two classes an array, one for each.
 *
 * A row is an array (the value of each column), a Map from columns (the first is 0) to values, or an object from names
 * to values. Columns that the model does not know count nothing.
 */
export function score(row) {
  const scores = scoresOf(withProducts(columnsOf(row)));
  return IS_BINARY ? scores[0] : scores;
}

/** The label of a row: the class of highest score, the first of several. */
export function predict(row) {
  const scores = scoresOf(withProducts(columnsOf(row)));
  return classes[IS_BINARY ? Number(scores[0] > threshold) : scores.indexOf(Math.max(...scores))];
}

// Products of features are features, too: of slots a >= b, column first + a(a + 1)/2 + b. Squares of 1 are left out.
function withProducts(cells) {
  if (!MODEL.products) return cells;
  const known = cells.filter(([column]) => SLOTS.has(column));
  const products = known.flatMap(([column, value], place) =>
    known.slice(0, place + 1).flatMap(([other, factor], at) => {
      if (at === place && value === 1) return [];
      const slots = [SLOTS.get(column), SLOTS.get(other)];
      const [a, b] = [Math.max(...slots), Math.min(...slots)];
      return [[MODEL.products.first + (a * (a + 1)) / 2 + b, REAL(value * factor)]];
    }),
  );
  return [...known, ...products];
}

function scoresOf(cells) {
  const scores = MODEL.intercepts.map(REAL);
  for (const vector of WEIGHTS) {
    const length = vector.normalize ? lengthOf(cells, vector.scales) : 1;
    for (const [column, value] of cells) {
      const place = vector.at.get(column);
      if (place === undefined) continue;
      const [start, stop] = vector.starts ? vector.starts.slice(place, place + 2) : [place, place + 1];
      for (let k = start; k < stop; k++) {
        scores[vector.classes ? vector.classes[k] : 0] += (vector.weights[k] * value) / length;
      }
    }
  }
  return scores;
}

function lengthOf(cells, scales) {
  let sum = 0;
  for (const [column, value] of cells) {
    const scale = scales ? scales.get(column) : 1;
    if (scale !== undefined) sum += (value / scale) ** 2;
  }
  return Math.sqrt(sum) || 1;
}

function columnsOf(row) {
  const numbered = row instanceof Map ? row : Array.isArray(row) || ArrayBuffer.isView(row) ? row.entries() : null;
  const cells = numbered ?? namedColumns(row);
  return Array.from(cells, ([column, value]) => [column, finite(value, column)]).filter(([, value]) => value !== 0);
}

function finite(value, column) {
  if (typeof value === "boolean") return Number(value);
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw new TypeError(`values must be finite numbers, got ${String(value)} in column ${String(column)}`);
  }
  return REAL(value);
}
