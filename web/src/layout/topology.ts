// Places the nodes and links of a lab in layers, left to right: the same lab is always drawn in the
// same way, because nothing here is random. A layer is the distance from an outermost node; within
// a layer the order follows the neighbours (two sweeps of barycentres), and a layer with many
// vertices wraps into a grid, so that a hub with a hundred nodes stays a block and no long
// column. A link that is a medium of its own (bridge, NAT...) is a vertex, a small hub.

import type { Topology } from '../summary';

export interface Point {
  x: number;
  y: number;
}

export interface PlacedNode extends Point {
  /** Index into `Topology.nodes`. */
  node: number;
}

export interface PlacedHub extends Point {
  /** Index into `Topology.links`. */
  link: number;
}

/** A drawn line: a whole point-to-point link, or one endpoint of a shared one. */
export interface PlacedEdge {
  link: number;
  /** Endpoints of the link that this line carries: one for a hub's, two for a direct link. */
  ends: { endpoint: number; at: Point }[];
  from: Point;
  to: Point;
  /** Sideways offset of the line's middle, for parallel lines. */
  bend: number;
}

export interface Layout {
  width: number;
  height: number;
  nodes: PlacedNode[];
  hubs: PlacedHub[];
  edges: PlacedEdge[];
}

const COLUMN = 136;
const DIRECT = 232;
const ROW = 104;
const MARGIN_X = 56;
const MARGIN_Y = 44;
/** More vertices than this in a layer wrap into a grid. */
const TALLEST = 6;

interface Vertex {
  hub: boolean;
  index: number;
  neighbours: number[];
}

export function layOut(topology: Topology): Layout {
  const { vertices, lines } = graphOf(topology);
  const positions: Point[] = vertices.map(() => ({ x: 0, y: 0 }));
  let top = 0;
  let width = 0;
  for (const component of components(vertices)) {
    const size = place(vertices, component, lines, positions, top);
    top += size.y;
    width = Math.max(width, size.x);
  }
  const shift = (p: Point): Point => ({ x: p.x + MARGIN_X, y: p.y + MARGIN_Y });
  const at = (v: number): Point => shift(positions[v] as Point);
  const nodes: PlacedNode[] = [];
  const hubs: PlacedHub[] = [];
  vertices.forEach((vertex, v) => {
    if (vertex.hub) hubs.push({ link: vertex.index, ...at(v) });
    else nodes.push({ node: vertex.index, ...at(v) });
  });
  return {
    width: width + 2 * MARGIN_X,
    height: Math.max(ROW, top) - ROW + 2 * MARGIN_Y + 24,
    nodes,
    hubs,
    edges: placeEdges(lines, at),
  };
}

interface Line {
  link: number;
  from: number;
  to: number;
  /** Endpoint of the link at each end; a hub has none. */
  endpoints: [number, number | null];
}

function graphOf(topology: Topology): { vertices: Vertex[]; lines: Line[] } {
  const vertices: Vertex[] = topology.nodes.map((_, index) => ({
    hub: false,
    index,
    neighbours: [],
  }));
  const byName = new Map(topology.nodes.map((node, index) => [node.name, index]));
  const lines: Line[] = [];
  const join = (line: Line): void => {
    lines.push(line);
    vertices[line.from]?.neighbours.push(line.to);
    vertices[line.to]?.neighbours.push(line.from);
  };
  topology.links.forEach((link, index) => {
    const ends = link.endpoints.map((end) => byName.get(end.node));
    const [a, b] = ends;
    if (link.type === 'veth' && ends.length === 2 && a !== undefined && b !== undefined) {
      join({ link: index, from: a, to: b, endpoints: [0, 1] });
      return;
    }
    const hub = vertices.length;
    vertices.push({ hub: true, index, neighbours: [] });
    ends.forEach((end, e) => {
      if (end !== undefined) join({ link: index, from: end, to: hub, endpoints: [e, null] });
    });
  });
  return { vertices, lines };
}

function components(vertices: Vertex[]): number[][] {
  const seen = new Set<number>();
  const found: number[][] = [];
  vertices.forEach((_, start) => {
    if (seen.has(start)) return;
    const members = [...distances(vertices, start).keys()];
    for (const v of members) seen.add(v);
    found.push(members.sort((a, b) => a - b));
  });
  return found;
}

/** Steps from a vertex to all that it reaches. */
function distances(vertices: Vertex[], start: number): Map<number, number> {
  const steps = new Map([[start, 0]]);
  const queue = [start];
  for (let i = 0; i < queue.length; i++) {
    const v = queue[i] as number;
    for (const next of vertices[v]?.neighbours ?? []) {
      if (steps.has(next)) continue;
      steps.set(next, (steps.get(v) ?? 0) + 1);
      queue.push(next);
    }
  }
  return steps;
}

/** The first declared node that is as far out as any: the far end of the far end's far end. */
function outermost(vertices: Vertex[], component: number[]): number {
  const first = component[0] as number;
  const reach = (v: number): number => Math.max(...distances(vertices, v).values());
  const far = farthest(distances(vertices, first));
  const diameter = reach(far);
  return reach(first) === diameter ? first : far;
}

function farthest(steps: Map<number, number>): number {
  let best = -1;
  let most = -1;
  for (const [v, d] of steps) if (d > most || (d === most && v < best)) [best, most] = [v, d];
  return best;
}

/** Places one component below `top`; returns its width, and its height with the gap after it. */
function place(
  vertices: Vertex[],
  component: number[],
  lines: Line[],
  positions: Point[],
  top: number,
): Point {
  const layers: number[][] = [];
  for (const [v, d] of distances(vertices, outermost(vertices, component)))
    (layers[d] ??= []).push(v);
  order(vertices, layers);
  const columns = layers.map((layer) => wrap(layer));
  const rows = Math.max(...columns.flat().map((column) => column.length));
  let x = 0;
  columns.forEach((grid, d) => {
    if (d > 0) x += gapBefore(lines, layers[d - 1] ?? [], layers[d] ?? []);
    grid.forEach((column, c) => {
      if (c > 0) x += COLUMN;
      column.forEach((v, r) => {
        positions[v] = { x, y: top + (r + (rows - column.length) / 2) * ROW };
      });
    });
  });
  return { x, y: rows * ROW };
}

/** A direct link carries the labels of both ends, so it needs more room than a hub's spoke. */
function gapBefore(lines: Line[], left: number[], right: number[]): number {
  const [a, b] = [new Set(left), new Set(right)];
  const crosses = (line: Line): boolean =>
    (a.has(line.from) && b.has(line.to)) || (a.has(line.to) && b.has(line.from));
  return lines.some((line) => line.endpoints[1] !== null && crosses(line)) ? DIRECT : COLUMN;
}

function wrap(layer: number[]): number[][] {
  if (layer.length <= TALLEST) return [layer];
  const rows = Math.max(TALLEST, Math.ceil(Math.sqrt(layer.length)));
  const columns: number[][] = [];
  for (let i = 0; i < layer.length; i += rows) columns.push(layer.slice(i, i + rows));
  return columns;
}

function order(vertices: Vertex[], layers: number[][]): void {
  for (const layer of layers) layer.sort((a, b) => a - b);
  const sweep = (layer: number[] | undefined, fixed: number[] | undefined): void => {
    if (!layer || !fixed) return;
    const rank = new Map(fixed.map((v, i) => [v, i / Math.max(1, fixed.length - 1)]));
    const centre = (v: number): number => {
      const ranks = (vertices[v]?.neighbours ?? []).flatMap((n) => rank.get(n) ?? []);
      return ranks.length ? ranks.reduce((sum, r) => sum + r, 0) / ranks.length : 0.5;
    };
    const centres = new Map(layer.map((v) => [v, centre(v)]));
    layer.sort((a, b) => (centres.get(a) ?? 0) - (centres.get(b) ?? 0) || a - b);
  };
  for (let round = 0; round < 2; round++) {
    for (let d = 1; d < layers.length; d++) sweep(layers[d], layers[d - 1]);
    for (let d = layers.length - 2; d >= 0; d--) sweep(layers[d], layers[d + 1]);
  }
}

function placeEdges(lines: Line[], at: (v: number) => Point): PlacedEdge[] {
  const pair = (line: Line): string => [line.from, line.to].sort((a, b) => a - b).join(' ');
  const totals = new Map<string, number>();
  for (const line of lines) totals.set(pair(line), (totals.get(pair(line)) ?? 0) + 1);
  const used = new Map<string, number>();
  return lines.map((line) => {
    const key = pair(line);
    const nth = used.get(key) ?? 0;
    used.set(key, nth + 1);
    const total = totals.get(key) ?? 1;
    const [from, to] = [at(line.from), at(line.to)];
    // A line within a column would run through what stands between; it takes a detour.
    const aside = from.x === to.x && Math.abs(from.y - to.y) > ROW * 1.5 ? 46 : 0;
    const ends = [{ endpoint: line.endpoints[0], at: from }];
    if (line.endpoints[1] !== null) ends.push({ endpoint: line.endpoints[1], at: to });
    return { link: line.link, ends, from, to, bend: (nth - (total - 1) / 2) * 44 + aside };
  });
}
