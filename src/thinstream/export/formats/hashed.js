
// From objects of names to columns, as the model's stream did: names are hashed, texts taken apart, columns crossed.

const SPACE = MODEL.space;
const COLUMNS = new Set(MODEL.columns.features);
const NUMERIC = new Set(MODEL.columns.numeric);
const OTHERS = new Set(MODEL.columns.others);
const TEXT = new Set(SPACE.text ?? []);
const CATEGORICAL = new Set(SPACE.categorical ?? []);
const DATES = new Set(SPACE.dates ?? []);
const MISSING = SPACE.missing ?? "as-is";
const NOTHING = new Set(["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"]);
const STOP = new Set((SPACE.stop ?? []).flatMap((entry) => wordsOf(cased(entry))));
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const DAY = "(\\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])";
const TIME = "([01]\\d|2[0-3]):[0-5]\\d(?::(?:[0-5]\\d|60)(?:[.,]\\d+)?)?(?:Z|[+-]\\d\\d(?::?\\d\\d)?)?";
const DATE = new RegExp(`^${DAY}(?:[T ]${TIME})?$`);
const MARK = " × ";
const MASK = 2 ** SPACE.hashing.bits - 1;
const PLAIN = murmur("", SPACE.hashing.seed);
const SEEDS = new Map();

function namedColumns(row) {
  const record = typeof row === "string" ? textAlone(row) : row;
  if (record === null || typeof record !== "object") {
    throw new TypeError(`a row must be an object with names, an array, or a Map from columns, got ${JSON.stringify(row)}`);
  }
  const features = featuresOf(record);
  const hashed = features.map(({ space, name, value }) => [murmur(name, seedOf(space)), value]);
  for (const cross of SPACE.cross ?? []) {
    for (const parts of crossed(cross, features, [])) {
      const name = parts.map(({ space, name }) => readable(space, name)).join(MARK);
      hashed.push([murmur(name, PLAIN), parts.reduce((product, part) => product * part.value, 1)]);
    }
  }
  const found = new Map();
  for (const [hash, value] of hashed) {
    const column = hash & MASK;
    const signed = SPACE.hashing.signed && hash >>> 31 ? -value : value;
    if (!SPACE.binary || !found.has(column)) found.set(column, (found.get(column) ?? 0) + signed);
  }
  return found;
}

function textAlone(text) {
  const [column, ...more] = TEXT;
  if (column === undefined || more.length || [...COLUMNS].some((name) => name !== column)) {
    throw new TypeError("a row must be an object; strings are only for models of one text column");
  }
  return { [column]: text };
}

/** Features of a record: {space, name, value, column}. */
function featuresOf(record) {
  const found = [];
  const entries = new Map(Object.entries(record));
  if (MISSING !== "as-is") COLUMNS.forEach((name) => entries.has(name) || entries.set(name, null));
  for (const [name, value] of entries) {
    if (OTHERS.has(name)) continue;
    if (COLUMNS.size && !COLUMNS.has(name)) {
      throw new TypeError(`the model has no column ${JSON.stringify(name)}`);
    }
    take(name, cell(name, value), found);
  }
  return found;
}

/** What a cell of a table is to the model. */
function cell(name, value) {
  if (isMissing(value)) {
    const declared = NUMERIC.has(name) || DATES.has(name);
    if (MISSING === "as-is" && !declared && typeof value === "string") return value;
    if (TEXT.has(name)) return null;
    if (MISSING === "error") throw new TypeError(`column ${JSON.stringify(name)} must have a value`);
    return MISSING === "indicator" ? "?" : null;
  }
  if (DATES.has(name)) return value === false ? false : dateParts(name, value);
  if (CATEGORICAL.has(name) && typeof value !== "object") return category(value);
  if (!NUMERIC.has(name) || typeof value !== "string") return value;
  if (/^ *[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)? *$/.test(value)) return Number(value);
  if (/^([Tt]rue|TRUE|[Ff]alse|FALSE)$/.test(value)) return value.toLowerCase() === "true";
  throw new TypeError(`column ${JSON.stringify(name)} is numeric, got ${value}`);
}

function isMissing(value) {
  if (typeof value === "string") return NOTHING.has(value.replace(/^ +| +$/g, ""));
  return value === null || value === undefined || Number.isNaN(value);
}

/** Numbers as Python writes them, whole ones without a point. */
function category(value) {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return BigInt(value).toString();
  const small = Math.abs(value) < 1e-4;
  return small ? value.toExponential().replace(/e-(\d)$/, "e-0$1") : String(value);
}

function dateParts(column, value) {
  const text = value instanceof Date ? value.toISOString().slice(0, 19) : String(value);
  const parts = DATE.exec(text);
  const [, year, month, day, hour] = parts ?? [];
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  if (!parts || date.getUTCDate() !== Number(day)) {
    throw new TypeError(`column ${JSON.stringify(column)} must have dates such as 2024-05-17, got ${text}`);
  }
  const found = { year, month, day, weekday: WEEKDAYS[date.getUTCDay()] };
  return hour === undefined ? found : { ...found, hour };
}

/** What an entry of an object gives. */
function take(key, value, found) {
  const add = (space, name, number) => found.push({ space, name, value: number, column: key });
  if (value === false) return;
  if (!TEXT.has(key) && MISSING !== "as-is" && isMissing(value)) {
    if (MISSING === "error") throw new TypeError(`${JSON.stringify(key)} must have a value`);
    if (MISSING === "indicator") add(`${key}=`, "?", 1);
  } else if (value === null || value === undefined) {
    return;
  } else if (TEXT.has(key)) {
    for (const part of Array.isArray(value) ? value : [value]) {
      if (typeof part !== "string") throw new TypeError(`${JSON.stringify(key)} is text, got ${JSON.stringify(part)}`);
      wordFeatures(part).forEach(([end, name]) => add(key + end, name, 1));
    }
  } else if (Array.isArray(value)) {
    value.forEach((part, k) => scalar(key, part, `${key}[${k}]`, add));
  } else if (typeof value === "object") {
    Object.entries(value).forEach(([inner, part]) => take(`${key}.${inner}`, part, found));
  } else {
    scalar(key, value, key, add);
  }
}

function scalar(key, value, name, add) {
  if (typeof value === "string") add(`${key}=`, value, 1);
  else if (value !== null && value !== false && value !== 0) add("", name, finite64(value, name));
}

function finite64(value, name) {
  const number = value === true ? 1 : value;
  if (!Number.isFinite(number)) throw new TypeError(`${name}: numbers must be finite, got ${JSON.stringify(value)}`);
  return number;
}

function cased(text) {
  return SPACE.lower === false ? text : text.toLowerCase();
}

function wordsOf(text) {
  return text.match(/[\p{L}\p{N}_]+/gu) ?? [];
}

/** What a text is taken apart into: [end of the namespace, name]. */
function wordFeatures(given) {
  const text = cased(given);
  const found = [];
  const [low, high] = SPACE.ngrams ?? (SPACE.chars ? [1, 0] : [1, 1]);
  const words = high ? wordsOf(text).filter((word) => !STOP.has(word)) : [];
  for (let end = 1; end <= words.length; end++) {
    for (let n = low; n <= Math.min(high, end); n++) found.push(["", words.slice(end - n, end).join(" ")]);
  }
  if (!SPACE.chars) return found;
  const [few, most] = SPACE.chars;
  const blanks = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;
  const letters = [...text.split(blanks).filter((part) => part).join(" ")];
  for (let start = 0; start < letters.length; start++) {
    for (let n = few; n <= Math.min(most, letters.length - start); n++) {
      found.push(["~", letters.slice(start, start + n).join("")]);
    }
  }
  return found;
}

/** Every combination of features of the columns that a cross names, each once. */
function* crossed(cross, features, chosen) {
  const level = chosen.length;
  if (level === cross.length) {
    yield chosen.map((place) => features[place]);
    return;
  }
  const before = cross.lastIndexOf(cross[level], level - 1);
  const start = level && before >= 0 ? chosen[before] + 1 : 0;
  for (let place = start; place < features.length; place++) {
    if (answers(features[place].column, cross[level])) yield* crossed(cross, features, [...chosen, place]);
  }
}

function answers(column, name) {
  return column === name || column.startsWith(`${name}.`) || column.startsWith(`${name}[`);
}

function readable(space, name) {
  return space && !space.endsWith("=") ? `${space}^${name}` : space + name;
}

function seedOf(space) {
  let seed = SEEDS.get(space);
  if (seed === undefined) SEEDS.set(space, (seed = murmur(space, SPACE.hashing.seed)));
  return seed;
}

/** MurmurHash3 (x86, 32 bits) of a text in UTF-8. */
function murmur(text, seed) {
  const bytes = utf8(text);
  const mixed = (word) => {
    const turned = Math.imul(word, 0xcc9e2d51);
    return Math.imul((turned << 15) | (turned >>> 17), 0x1b873593);
  };
  const whole = bytes.length & ~3;
  let hash = seed;
  for (let at = 0; at < whole; at += 4) {
    hash ^= mixed(bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24));
    hash = (Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64) | 0;
  }
  let rest = 0;
  for (let at = whole; at < bytes.length; at++) rest |= bytes[at] << (8 * (at - whole));
  if (bytes.length > whole) hash ^= mixed(rest);
  hash ^= bytes.length;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** TextEncoder would replace lone surrogates, which are names like others. */
function utf8(text) {
  const bytes = [];
  for (const letter of text) {
    const c = letter.codePointAt(0);
    if (c < 0x80) bytes.push(c);
    else if (c < 0x800) bytes.push(0xc0 | (c >> 6), 0x80 | (c & 63));
    else if (c < 0x10000) bytes.push(0xe0 | (c >> 12), 0x80 | ((c >> 6) & 63), 0x80 | (c & 63));
    else bytes.push(0xf0 | (c >> 18), 0x80 | ((c >> 12) & 63), 0x80 | ((c >> 6) & 63), 0x80 | (c & 63));
  }
  return bytes;
}
