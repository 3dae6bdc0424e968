// The search text as a list of terms, so that a click adds or removes one. The server alone decides what
// matches; see the crate `explorer` for the language.

/** The terms of a query, as they were typed. White space within quotes belongs to a term. */
export function terms(query: string): string[] {
  return query.match(/(?:"[^"]*"?|[^\s"])+/g) ?? [];
}

/** The term that asks for a value: `study:quick`, `machine:"EPYC 9B45"`. */
export function filterTerm(key: string, value: string): string {
  return `${key}:${quoted(value)}`;
}

/** The term that asks for a level of a factor: `kind=vm`. */
export function levelTerm(factor: string, level: string): string {
  return /^[^\s":=-][^\s":=]*$/.test(factor)
    ? `${factor}=${quoted(level)}`
    : quoted(`${factor} ${level}`);
}

/** A quote inside of a value ends it: the language has none within a phrase. */
function quoted(value: string): string {
  const text = value.replace(/"/g, ' ').trim();
  return /^[^\s"]+$/.test(value) ? value : `"${text}"`;
}

export function hasTerm(query: string, term: string): boolean {
  return terms(query).includes(term);
}

/** The query with the term, or without it if it was there. */
export function toggled(query: string, term: string): string {
  const all = terms(query);
  const without = all.filter((one) => one !== term);
  return (without.length < all.length ? without : [...all, term]).join(' ');
}
