// Numbers for people: three significant digits, SI prefixes, a thin space before the unit. A value
// that is absent or not finite becomes an en dash, so that NaN never reaches the page.

import type { ActionKind } from './summary';

export const NONE = '–';
const THIN = '\u2009';
const GROUP = '\u202f';

type Maybe = number | null | undefined;

function isNumber(value: Maybe): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

/** `digits` significant digits, without an exponent: 1234.5 is `1235`, 0.012345 is `0.0123`. */
export function significant(value: Maybe, digits = 3): string {
  if (!isNumber(value)) return NONE;
  if (value === 0) return '0';
  const rounded = Number(value.toPrecision(digits));
  const magnitude = Math.floor(Math.log10(Math.abs(rounded)));
  const decimals = Math.min(12, Math.max(0, digits - 1 - magnitude));
  return sign(value.toFixed(decimals));
}

function sign(text: string): string {
  return text.replace(/^-/, '\u2212');
}

type Unit = [factor: number, name: string];

const TIME: Unit[] = [
  [1, 'ns'],
  [1e3, 'µs'],
  [1e6, 'ms'],
  [1e9, 's'],
];
const BITS: Unit[] = [
  [1, 'bit/s'],
  [1e3, 'kbit/s'],
  [1e6, 'Mbit/s'],
  [1e9, 'Gbit/s'],
  [1e12, 'Tbit/s'],
];
const BYTES: Unit[] = [
  [1, 'B'],
  [1024, 'KiB'],
  [1024 ** 2, 'MiB'],
  [1024 ** 3, 'GiB'],
  [1024 ** 4, 'TiB'],
];

/** The largest unit in which the value, rounded, is at least 1. */
function unitFor(value: number, units: Unit[], digits: number): Unit {
  const size = Math.abs(Number(value.toPrecision(digits)));
  let chosen = units[0] as Unit;
  for (const unit of units) if (size >= unit[0]) chosen = unit;
  return chosen;
}

function withUnit(value: Maybe, units: Unit[], digits = 3): string {
  if (!isNumber(value)) return NONE;
  const [factor, name] = unitFor(value, units, digits);
  return `${significant(value / factor, digits)}${THIN}${name}`;
}

/** Nanoseconds as `17.9 µs`. */
export function duration(ns: Maybe, digits = 3): string {
  return withUnit(ns, TIME, digits);
}

/** An interval in one unit, `17.2–18.4 µs`, or in two where its ends are far apart: `44.2 ns–70.6 s`. */
export function durationRange(range: readonly [number, number] | null | undefined): string {
  if (!range || !isNumber(range[0]) || !isNumber(range[1])) return NONE;
  const [factor, name] = unitFor(Math.max(Math.abs(range[0]), Math.abs(range[1])), TIME, 3);
  if (range[0] !== 0 && Math.abs(range[0]) < factor / 100) {
    return `${duration(range[0])}–${duration(range[1])}`;
  }
  return `${significant(range[0] / factor)}–${significant(range[1] / factor)}${THIN}${name}`;
}

/** A label of an axis: as `duration`, without trailing zeros. */
export function durationTick(ns: number): string {
  return trimmed(ns, TIME);
}

function trimmed(value: number, units: Unit[]): string {
  if (!isNumber(value)) return '';
  if (value === 0) return '0';
  const [factor, name] = unitFor(value, units, 6);
  return `${sign(String(Number((value / factor).toPrecision(6))))}${THIN}${name}`;
}

export function bitRate(bitsPerSecond: Maybe): string {
  return withUnit(bitsPerSecond, BITS);
}

/** The participle of an act. */
export function participle(act: ActionKind): string {
  return { pause: 'paused', migrate: 'moved', snapshot: 'saved', restore: 'restored' }[act];
}

export function bytes(value: Maybe): string {
  if (!isNumber(value)) return NONE;
  const [factor, name] = unitFor(value, BYTES, 3);
  return `${Number(significant(value / factor))}${THIN}${name}`;
}

/** A value with the unit that a `Metric` names. */
export function quantity(value: Maybe, unit: string): string {
  if (!isNumber(value)) return NONE;
  if (unit === 'bit/s') return bitRate(value);
  if (unit === 'ns') return duration(value);
  if (unit === 'B') return withUnit(value, BYTES);
  if (unit === '×') return ratio(value);
  if (unit === '1') return value === 0 ? `0${THIN}%` : `${significant(value * 100)}${THIN}%`;
  return `${significant(value)}${THIN}${unit}`;
}

/** An interval with the unit that a `Metric` names. */
export function quantityRange(range: readonly [number, number] | undefined, unit: string): string {
  if (!range) return NONE;
  const low = quantity(range[0], unit);
  const high = quantity(range[1], unit);
  const [lowValue, lowUnit] = low.split(THIN);
  return high.split(THIN)[1] === lowUnit ? `${lowValue}–${high}` : `${low}–${high}`;
}

/** As `quantity`, without trailing zeros, for an axis. */
export function quantityTick(value: number, unit: string): string {
  if (unit === 'bit/s') return trimmed(value, BITS);
  if (unit === 'ns') return trimmed(value, TIME);
  if (unit === 'B') return trimmed(value, BYTES);
  if (unit === '×') return ratioTick(value);
  if (unit === '1') return `${Number((value * 100).toPrecision(6))}${THIN}%`;
  return `${Number(value.toPrecision(6))}`;
}

/** Whole numbers with narrow spaces: `40 000`. */
export function count(value: Maybe): string {
  if (!isNumber(value)) return NONE;
  const digits = String(Math.abs(Math.round(value)));
  const text = digits.length > 4 ? digits.replace(/\B(?=(\d{3})+$)/g, GROUP) : digits;
  return value < 0 ? `\u2212${text}` : text;
}

/** `1.02×`, `190 000×`. */
export function ratio(value: Maybe): string {
  return isNumber(value) ? `${factor(value)}×` : NONE;
}

/** A factor of tens of thousands has three digits at most. */
function factor(value: number): string {
  return Math.abs(value) < 10_000 ? significant(value) : count(Number(value.toPrecision(3)));
}

/** As `ratio`, without trailing zeros, for an axis. */
export function ratioTick(value: number): string {
  return value < 10_000 ? `${Number(value.toPrecision(3))}×` : ratio(value);
}

/** `0.98–1.06`. Ends that are off by more than a thousand are not worth their digits: `<0.001–>1000`. */
export function ratioRange(range: readonly [number, number] | undefined): string {
  if (!range) return NONE;
  const [low, high] = range;
  const from = low > 0 && low < 0.001 ? '<0.001' : factor(low);
  return `${from}–${high > 1000 && low < 1 ? '>1000' : factor(high)}`;
}

export function pValue(p: Maybe): string {
  if (!isNumber(p)) return NONE;
  return p < 0.001 ? '<\u200a0.001' : significant(p, 2);
}

/** A fraction as a percentile, with as many digits as its distance from 100 % needs: `99.9 %`. */
export function percentile(p: Maybe): string {
  if (!isNumber(p)) return NONE;
  const rest = 1 - p;
  if (rest <= 0) return `100${THIN}%`;
  const decimals = Math.min(9, Math.max(0, Math.ceil(-Math.log10(rest) - 1e-9) - 1));
  return `${Number((p * 100).toFixed(decimals))}${THIN}%`;
}

/** `p99.9`, as the heading of a column. */
export function percentileName(p: number): string {
  return `p${Number((p * 100).toPrecision(10))}`;
}

/** Seconds since the start of a trial. */
export function seconds(value: Maybe): string {
  return isNumber(value) ? `${significant(value)}${THIN}s` : NONE;
}

/** `11 June 2025, 09:30 UTC`; what is not a date is shown as it is. */
export function moment(rfc3339: string): string {
  const date = new Date(rfc3339);
  if (Number.isNaN(date.getTime())) return rfc3339;
  const months =
    'January February March April May June July August September October November December';
  const month = months.split(' ')[date.getUTCMonth()];
  const two = (n: number): string => String(n).padStart(2, '0');
  return `${date.getUTCDate()} ${month} ${date.getUTCFullYear()}, ${two(date.getUTCHours())}:${two(date.getUTCMinutes())} UTC`;
}

/** Time between two moments: `5 min 31 s`. */
export function elapsed(from: string, to: string): string {
  const total = Math.round((new Date(to).getTime() - new Date(from).getTime()) / 1000);
  if (!isNumber(total) || total < 0) return NONE;
  const hours = Math.floor(total / 3600);
  const minutes = Math.floor((total % 3600) / 60);
  if (hours > 0) return `${hours}${THIN}h ${minutes}${THIN}min`;
  return minutes > 0 ? `${minutes}${THIN}min ${total % 60}${THIN}s` : `${total}${THIN}s`;
}

/** `1 trial`, `5 trials`. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** `2025-06-11` in UTC, for a table; what is not a date is shown as it is. */
export function day(rfc3339: string): string {
  const date = new Date(rfc3339);
  return Number.isNaN(date.getTime()) ? rfc3339 : date.toISOString().slice(0, 10);
}

/** `09:30 UTC`; empty for what is not a date. */
export function clock(rfc3339: string): string {
  const date = new Date(rfc3339);
  return Number.isNaN(date.getTime()) ? '' : `${date.toISOString().slice(11, 16)} UTC`;
}
