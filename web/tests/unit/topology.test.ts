import { describe, expect, it } from 'vitest';

import { layOut, type Point } from '../../src/layout/topology';
import type { Topology, TopologyLink } from '../../src/summary';

function lab(names: string[], links: [type: string, ...nodes: string[]][]): Topology {
  return {
    lab: 'test',
    levels: {},
    nodes: names.map((name) => ({ name, kind: 'native', facts: [] })),
    links: links.map(([type, ...nodes], i): TopologyLink => ({
      name: `${type}${i}`,
      type,
      facts: [],
      endpoints: nodes.map((node) => ({ node, interface: `eth${i}`, addresses: [] })),
    })),
  };
}

const numbered = (n: number): string[] => Array.from({ length: n }, (_, i) => `n${i}`);

const LABS: Record<string, Topology> = {
  'a pair over a veth': lab(['a', 'b'], [['veth', 'a', 'b']]),
  'a pair over a bridge': lab(['a', 'b'], [['bridge', 'a', 'b']]),
  'a chain': lab(
    ['a', 'b', 'c', 'd'],
    [
      ['veth', 'a', 'b'],
      ['veth', 'b', 'c'],
      ['veth', 'c', 'd'],
    ],
  ),
  'a ring': lab(
    ['a', 'b', 'c'],
    [
      ['veth', 'a', 'b'],
      ['veth', 'b', 'c'],
      ['veth', 'c', 'a'],
    ],
  ),
  'two links between one pair': lab(
    ['a', 'b'],
    [
      ['veth', 'a', 'b'],
      ['veth', 'a', 'b'],
    ],
  ),
  'two parts and a lone node': lab(
    ['a', 'b', 'c', 'd', 'e'],
    [
      ['veth', 'a', 'b'],
      ['nat', 'c', 'd'],
    ],
  ),
  'a hundred on a bridge': lab(numbered(100), [['bridge', ...numbered(100)]]),
  nothing: lab([], []),
  'an end that is nowhere': lab(['a'], [['veth', 'a', 'ghost']]),
};

describe.each(Object.entries(LABS))('%s', (_name, topology) => {
  const layout = layOut(topology);
  const points: Point[] = [...layout.nodes, ...layout.hubs];

  it('places every node once', () => {
    const placed = layout.nodes.map(({ node }) => node).sort((a, b) => a - b);
    expect(placed).toEqual(topology.nodes.map((_, i) => i));
  });

  it('keeps vertices apart and inside the drawing', () => {
    for (const [i, a] of points.entries()) {
      expect(a.x).toBeGreaterThanOrEqual(20);
      expect(a.y).toBeGreaterThanOrEqual(20);
      expect(a.x).toBeLessThanOrEqual(layout.width - 20);
      expect(a.y).toBeLessThanOrEqual(layout.height - 20);
      for (const b of points.slice(i + 1)) {
        expect(Math.hypot(a.x - b.x, a.y - b.y)).toBeGreaterThan(70);
      }
    }
  });

  it('is the same every time', () => {
    expect(layOut(topology)).toEqual(layout);
  });
});

describe('layout', () => {
  it('makes shared media hubs and direct links lines', () => {
    const bridge = layOut(LABS['a pair over a bridge'] as Topology);
    expect(bridge.hubs).toHaveLength(1);
    expect(bridge.edges.map((edge) => edge.ends.length)).toEqual([1, 1]);
    const veth = layOut(LABS['a pair over a veth'] as Topology);
    expect(veth.hubs).toHaveLength(0);
    expect(veth.edges.map((edge) => edge.ends.length)).toEqual([2]);
  });

  it('draws a chain from left to right in its order', () => {
    const { nodes } = layOut(LABS['a chain'] as Topology);
    const xs = nodes.map((node) => node.x);
    expect([...xs].sort((a, b) => a - b)).toEqual(xs);
  });

  it('bends parallel links apart', () => {
    const { edges } = layOut(LABS['two links between one pair'] as Topology);
    expect(edges[0]?.bend).not.toBe(edges[1]?.bend);
  });

  it('keeps a large star compact', () => {
    const { width, height } = layOut(LABS['a hundred on a bridge'] as Topology);
    expect(Math.max(width / height, height / width)).toBeLessThan(3);
  });
});
