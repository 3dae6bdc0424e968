// Draws a lab as the layout placed it. The kind of a node is its shape: a process group is a square,
// a container a double-edged box, a virtual machine a hexagon, the host a circle. Addresses stand
// at the ends of the links while there is room, and always in the table under the drawing.

import { h, s } from '../dom';
import { layOut, type Layout, type PlacedEdge, type Point } from '../layout/topology';
import type { Topology, TopologyNode } from '../summary';

/** Beyond this many nodes, addresses are left to the table. */
const LABELLED = 8;
const HALF = 19;

export function topologyCard(topology: Topology, index: number): HTMLElement {
  const levels = Object.entries(topology.levels).map(([name, level]) => `${name} ${level}`);
  return h(
    'figure',
    { class: 'panel topology', 'data-panel': 'topology', 'data-topology': index },
    h('figcaption', {}, h('h3', {}, levels.join(' · ') || topology.lab)),
    h('div', { class: 'canvas scroll' }, drawTopology(topology)),
    addressTable(topology),
  );
}

function drawTopology(topology: Topology): SVGSVGElement {
  const layout = layOut(topology);
  const labelled = topology.nodes.length <= LABELLED;
  const names = topology.nodes.map((node) => `${node.name} (${node.kind})`).join(', ');
  const svg = s('svg', {
    class: 'plot graph',
    role: 'img',
    'aria-label': `Lab ${topology.lab}: ${names}`,
    width: layout.width,
    height: layout.height,
    viewBox: `0 0 ${layout.width} ${layout.height}`,
    'data-plot': 'topology',
  });
  for (const edge of layout.edges) svg.append(drawEdge(topology, edge, labelled));
  drawHubs(svg, topology, layout);
  for (const placed of layout.nodes) {
    const node = topology.nodes[placed.node];
    if (node) svg.append(drawNode(node, placed));
  }
  return svg;
}

function drawHubs(svg: SVGSVGElement, topology: Topology, layout: Layout): void {
  for (const hub of layout.hubs) {
    const link = topology.links[hub.link];
    if (!link) continue;
    svg.append(
      s(
        'g',
        { class: 'hub', 'data-link': link.name, transform: `translate(${hub.x} ${hub.y})` },
        s('title', {}, [link.name, link.type, ...link.facts].join(', ')),
        s('circle', { r: 6 }),
        s('text', { class: 'name', y: -14, 'text-anchor': 'middle' }, link.type),
        s('text', { class: 'fact', y: 23, 'text-anchor': 'middle' }, link.facts.join(', ')),
      ),
    );
  }
}

function drawEdge(topology: Topology, edge: PlacedEdge, labelled: boolean): SVGGElement {
  const { from, to, bend } = edge;
  const link = topology.links[edge.link];
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const control = {
    x: (from.x + to.x) / 2 - ((to.y - from.y) / length) * bend * 2,
    y: (from.y + to.y) / 2 + ((to.x - from.x) / length) * bend * 2,
  };
  const g = s('g', { class: 'edge', 'data-link': link?.name });
  g.append(s('path', { d: `M${from.x} ${from.y}Q${control.x} ${control.y} ${to.x} ${to.y}` }));
  if (!link || !labelled) return g;
  if (edge.ends.length === 2) {
    const middle = {
      x: (from.x + to.x) / 4 + control.x / 2,
      y: (from.y + to.y) / 4 + control.y / 2,
    };
    g.append(
      s(
        'text',
        { class: 'name', x: middle.x, y: middle.y - 20, 'text-anchor': 'middle' },
        link.type,
      ),
      s(
        'text',
        { class: 'fact', x: middle.x, y: middle.y + 47, 'text-anchor': 'middle' },
        link.facts.join(', '),
      ),
    );
  }
  for (const { endpoint, at } of edge.ends) {
    const end = link.endpoints[endpoint];
    if (end)
      g.append(endLabel(at, at === from ? to : from, control, [end.interface, ...end.addresses]));
  }
  return g;
}

/** Interface above the line, addresses under it, close to their node. */
function endLabel(at: Point, other: Point, control: Point, lines: string[]): SVGGElement {
  const right = other.x > at.x || (other.x === at.x && other.y > at.y);
  const slope = Math.abs(control.x - at.x) < 1 ? 0 : (control.y - at.y) / (control.x - at.x);
  const x = at.x + (right ? 1 : -1) * (HALF + 8);
  const y = at.y + Math.max(-0.7, Math.min(0.7, slope)) * (x - at.x) * 1.6;
  const anchor = right ? 'start' : 'end';
  return s(
    'g',
    { class: 'end' },
    lines.map((text, i) =>
      s('text', { x, y: y + (i === 0 ? -6 : 2 + i * 12.5), 'text-anchor': anchor }, text),
    ),
  );
}

function drawNode(node: TopologyNode, at: Point): SVGGElement {
  return s(
    'g',
    {
      class: `node kind-${node.kind}`,
      'data-node': node.name,
      transform: `translate(${at.x} ${at.y})`,
    },
    s('title', {}, [node.name, node.kind, ...node.facts].join(', ')),
    shape(node.kind),
    s('text', { class: 'name', y: HALF + 16, 'text-anchor': 'middle' }, node.name),
    s('text', { class: 'fact', y: HALF + 30, 'text-anchor': 'middle' }, node.kind),
  );
}

function shape(kind: string): SVGElement {
  const r = HALF;
  if (kind === 'vm') {
    const [dx, dy] = [r, r * 0.58];
    return s('path', {
      class: 'shape',
      d: `M0 ${-r * 1.1}L${dx} ${-dy}V${dy}L0 ${r * 1.1}L${-dx} ${dy}V${-dy}Z`,
    });
  }
  if (kind === 'host') return s('circle', { class: 'shape', r });
  const square = (half: number, radius: number): SVGElement =>
    s('rect', {
      class: 'shape',
      x: -half,
      y: -half,
      width: 2 * half,
      height: 2 * half,
      rx: radius,
    });
  if (kind === 'container') return s('g', {}, square(r, 4), square(r - 5, 2));
  return square(r, 4);
}

function addressTable(topology: Topology): HTMLElement {
  const rows = topology.links.flatMap((link) =>
    link.endpoints.map((end) => {
      const node = topology.nodes.find((n) => n.name === end.node);
      return h(
        'tr',
        {},
        h('th', { scope: 'row' }, end.node),
        h('td', {}, [node?.kind, ...(node?.facts ?? [])].filter(Boolean).join(', ')),
        h('td', { class: 'mono' }, end.interface),
        h('td', { class: 'mono' }, end.addresses.join(' ')),
        h('td', {}, [link.type, ...link.facts].join(', ')),
      );
    }),
  );
  const heads = ['Node', 'Kind', 'Interface', 'Addresses', 'Link'];
  return h(
    'details',
    {},
    h('summary', {}, 'Addresses'),
    h(
      'div',
      { class: 'scroll' },
      h(
        'table',
        { class: 'plain' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            heads.map((text) => h('th', { scope: 'col' }, text)),
          ),
        ),
        h('tbody', {}, rows),
      ),
    ),
  );
}
