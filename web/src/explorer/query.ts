// The search text as a list of terms, so that a click adds or removes one. The server alone decides what
// matches; see the crate `explorer` for the language.

/** The terms of a query, as they were typed. White space within quotes belongs to a term. */
export function terms(query: string): string[] {
  return query.match(/(?:"[^"]*"?|[^\s"])+/g) ?? [];
}

/** The term for what has exactly this value: `study=quick`, `machine="EPYC 9B45"`, `kind=vm`. */
export function exactTerm(name: string, value: string): string {
  // The language has no quotation mark within a value. Its longest piece without one finds the value too.
  if (/"/.test(name + value)) return `"${longest(value.split('"'))}"`;
  return `${quoted(name)}=${quoted(value)}`;
}

function quoted(text: string): string {
  return /^[^\s:=-][^\s:=]*$/.test(text) ? text : `"${text}"`;
}

function longest(texts: string[]): string {
  return texts.reduce((best, text) => (text.length > best.length ? text : best), '');
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
