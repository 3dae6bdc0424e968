// The data contract: `summary.json` as crates/model/src/results writes it. Rust's `Option` fields
// are left out of the JSON when they are `None`, so they are optional here; Rust's tuples are
// arrays. Latency is in nanoseconds throughout.

/** An interval or any other pair. */
export type Pair = [number, number];

/** Level of each factor, by factor name. */
export type Levels = Record<string, string>;

export interface Summary {
  format: string;
  id: string;
  study: string;
  description?: string;
  state: RunState;
  /** RFC 3339, UTC. */
  started: string;
  finished?: string;
  /** Above 2^53 the last digits are lost by JSON.parse; see `seedText` in load.ts. */
  seed: number;
  /** Trials of each cell that were planned. */
  replicates: number;
  host: HostBrief;
  versions: Record<string, string>;
  factors: Factor[];
  measurements: MeasurementInfo[];
  baseline: Levels;
  groups: Group[];
  cells: Cell[];
  /** Effects of the factors, where there are several; the main effects first. */
  effects?: Effect[];
  /** In the order in which they ran. */
  trials: TrialSummary[];
  /** Causes of the slowest packets, for measurements through taps. */
  tails: Tail[];
  topologies: Topology[];
  starts?: Starts[];
  sensors?: SensorSummary[];
  paper?: PaperComparison;
  actions?: Actions[];
  notes: Note[];
}

export type RunState =
  { state: 'running' } | { state: 'complete' } | { state: 'incomplete'; reason: string };

export interface HostBrief {
  cpu: string;
  cores: number;
  memory_bytes: number;
  kernel: string;
  distribution: string;
  hypervisor?: string;
  /** `kvm`, or `tcg` (software emulation). */
  acceleration: string;
  acceleration_reason?: string;
  cgroup: string;
  clocksource: string;
}

export interface Factor {
  name: string;
  path: string;
  levels: string[];
}

export interface MeasurementInfo {
  name: string;
  /** `rr`, `packets`, `stream`, `forward` or `workload`. */
  probe: string;
  description: string;
  /** `round trip` or `one way`; absent for a stream. */
  latency?: string;
  sweep?: SweepPoint;
}

/** The place of a measurement among those of its sweep. */
export interface SweepPoint {
  /** The measurement's name as written. */
  sweep: string;
  /** Path of the parameter. */
  parameter: string;
  value: string;
}

export interface Group {
  id: string;
  measurement: string;
  levels: Levels;
  title: string;
  /** The baseline first. */
  cells: string[];
  baseline?: string;
}

export interface Cell {
  id: string;
  measurement: string;
  levels: Levels;
  /** The levels in which it differs from others of its group, for example `vm`. */
  label: string;
  group: string;
  environment: Environment;
  /** Index into `Summary.topologies`. */
  topology: number;
  /** Trials that entered the statistics. */
  replicates: number;
  /** Those of them with a failed check. */
  overloaded: number;
  /** Those of them that others had disturbed at first; absent if there are none. */
  repeated?: number;
  counters: Counters;
  latency?: Latency;
  metrics: Metric[];
  /** Present for a workload. */
  scaling?: CellScaling;
  comparison?: Comparison;
}

/** A workload over the number of its nodes. */
export interface CellScaling {
  nodes: number;
  /** Absent for one node. */
  slowdown?: {
    /** The cell with one node. */
    alone: string;
    /** Above 1: slower. */
    ratio: number;
    ratio_ci95?: Pair;
  };
}

export interface Environment {
  emulated: boolean;
  /** The emulated parts, each with its emulator: `card eth0 (igb, by QEMU)`. */
  emulation?: string[];
  facts: Record<string, string>;
}

export interface Latency {
  samples: number;
  min_ns: number;
  max_ns: number;
  iqr_ns: Pair;
  sd_ns: number;
  quantiles: Quantile[];
  /** `(1 / (1 - p), ns)`, rising. */
  curve: Pair[];
  curve_sound_to: number;
  /** `(ns, fraction)`, rising. */
  cdf: Pair[];
  /** Values without the time that the hypervisor underneath stole. */
  steal_aside?: StealAside;
}

export interface StealAside {
  /** Exchanges that lost time, and how much they lost together. */
  exchanges: number;
  stolen_ns: number;
  sd_ns: number;
  quantiles: Quantile[];
}

export interface Quantile {
  p: number;
  value_ns?: number;
  ci95_ns?: Pair;
  /** Samples needed before this percentile may be reported. */
  needed: number;
}

export interface Metric {
  name: string;
  title: string;
  /** `bit/s`, `ns/byte`, `ns`, `B`, `1`, or a workload's own. */
  unit: string;
  higher_is_better: boolean;
  spread: Spread;
  ci95?: Pair;
  /** One value a trial, in the order of `Summary.trials`. */
  values: number[];
}

export interface Spread {
  min: number;
  p5: number;
  q1: number;
  median: number;
  q3: number;
  p95: number;
  max: number;
}

export type Verdict =
  'better' | 'worse' | 'not-proven' | 'no-difference' | 'inconclusive' | 'too-few-replicates';

export interface Comparison {
  baseline: string;
  /** `median latency`, or a metric's title. */
  quantity: string;
  /** Cell over baseline. */
  ratio: number;
  ratio_ci95?: Pair;
  p_value?: number;
  verdict: Verdict;
  /** Ratios beyond the median. */
  tails: TailRatio[];
  /** Ratios with stolen time set aside on both sides. */
  tails_steal_aside?: TailRatio[];
}

export interface TailRatio {
  /** `p99.9`, or `sd` for the standard deviation. */
  of: string;
  /** Cell over baseline. */
  ratio: number;
  ratio_ci95?: Pair;
  /** Adjusted for all tails of the group. */
  p_value?: number;
}

/** A change of one factor, or of several at once (an interaction), on one quantity of one measurement. */
export interface Effect {
  measurement: string;
  /** `median latency`, a metric's title, `p99.9`, `sd`, or `sd between trials`. */
  quantity: string;
  changes: Change[];
  /** One change: over the reference, the mean over the other factors' levels. Several: all together over the product
   * of each. */
  ratio: number;
  ratio_ci95: Pair;
  p_value: number;
  combinations: number;
  verdict: Verdict;
}

/** From a factor's reference level to another one. */
export interface Change {
  factor: string;
  from: string;
  to: string;
}

export interface TrialSummary {
  trial: number;
  cell: string;
  replicate: number;
  started: string;
  failed?: string;
  overloaded: boolean;
  /** Attempts before it that were discarded. */
  repeats?: number;
  counters: Counters;
  spread_ns?: Spread;
  /** Seconds since the start; smallest, median and largest of the bucket in ns (or bit/s). */
  series: [number, number, number, number][];
  floor?: Floor;
  clock_error_ns?: number;
  /** The metric of a workload in each of its nodes. */
  by_node?: [node: string, value: number][];
  checks: Check[];
  /** Things done to nodes within the window. */
  actions?: ActionRecord[];
  /** The longest time without an arrival, where there were actions. */
  silence_ns?: number;
}

export type ActionKind = 'pause' | 'migrate' | 'snapshot' | 'restore';

/** Times in ns on the axis of the series. */
export interface ActionRecord {
  node: string;
  act: ActionKind;
  /** The node to whose hosts it moved. */
  to?: string;
  /** When the order was given, and when all of it was done. */
  asked_ns: number;
  done_ns: number;
  /** When the node stood still, was told to go on, and went on. */
  stopped_ns?: number;
  resumed_ns?: number;
  running_ns?: number;
  /** How long it stood still by QEMU's own account. */
  claimed_ns?: number;
  copied?: { bytes: number; passes: number; was_forced: boolean };
  /** The longest time without an arrival, from the order until a second after it was done. */
  gap_ns?: number;
}

/** A paper's published figures beside those of this run. */
export interface PaperComparison {
  name: string;
  title: string;
  authors: string;
  published: string;
  testbed: string;
  tables: PaperTable[];
}

export interface PaperTable {
  title: string;
  /** Table, figure or section of the paper. */
  place: string;
  /** The others are divided by the first. */
  columns: string[];
  rows: PaperRow[];
  note?: string;
}

export interface PaperRow {
  name: string;
  higher_is_better: boolean;
  published_unit: string;
  measured_unit: string;
  values: PaperValue[];
}

export interface PaperValue {
  published?: number;
  published_spread?: number;
  published_ratio?: number;
  /** The ratio's direction; the paper may have no number for it. */
  published_direction?: 'less' | 'same' | 'more';
  measured?: number;
  measured_ci95?: [number, number];
  ratio?: number;
  ratio_ci95?: [number, number];
  verdict?: 'holds' | 'does-not-hold' | 'cannot-be-told';
  reason?: string;
}

/** All actions of one kind on one node in a cell. */
export interface Actions {
  cell: string;
  node: string;
  act: ActionKind;
  count: number;
  gap?: TimeRange;
  stood?: TimeRange;
  claimed?: TimeRange;
  took: TimeRange;
  /** In bytes. */
  copied?: TimeRange;
  passes?: TimeRange;
  /** Moves of a node that wrote faster than it was copied. */
  forced: number;
}

export interface Counters {
  sent: number;
  received: number;
  lost: number;
  duplicated: number;
  reordered: number;
  unmatched: number;
  corrupted: number;
}

export interface Floor {
  median_ns: number;
  p99_ns: number;
  samples: number;
  clock_read_ns: number;
  clock_resolution_ns: number;
}

export interface Check {
  name: string;
  question: string;
  value: number;
  limit: number;
  unit: string;
  passed: boolean;
}

/** The slow packets of one device in one cell. Rows of numbers name causes by their place. */
export interface Tail {
  cell: string;
  /** The node, or the link. */
  device: string;
  /** The program that forwards packets; absent if the kernel does. */
  program?: string;
  before: string;
  behind: string;
  trials: number[];
  /** Packets with both times. */
  packets: number;
  counters: Counters;
  impossible: number;
  no_room: number;
  /** Kernel events that were lost. */
  overwritten: number;
  /** Latency below which no packet was explained. */
  threshold_ns: number;
  curve: Pair[];
  ruler?: Ruler;
  unknown: string[];
  causes: CauseInfo[];
  /** By percentile; the last, at 0, covers all explained packets. */
  blames: Blame[];
  /** The slowest first. */
  worst: SlowPacket[];
  names: string[];
  stretches: Stretch[];
  /** Where in its code the device was, if its stacks were sampled. */
  code?: Code;
}

/** Sampled stacks as a tree: those of the slowest packets, and the others. */
export interface Code {
  /** Samples in a second of a thread's running. */
  rate: number;
  slow: number;
  otherwise: number;
  lost: number;
  /** A caller comes before what it calls; threads have none. */
  functions: [name: string, caller: number | null, slow: number, otherwise: number][];
}

/** The taps' own error, over an empty wire. */
export interface Ruler {
  median_ns: number;
  p9999_ns?: number;
  samples: number;
  lost: number;
}

export interface CauseInfo {
  name: string;
  kind: string;
  remedy?: string;
  knobs?: string[];
}

export interface Blame {
  quantile: number;
  latency_ns: number;
  beyond: number;
  explained: number;
  unexplained: number;
  rows: { cause: number; share: number; time_ns: number; first_of: number }[];
}

/** A piece of a packet's time; a joined one with the time of each cause, the largest first. */
export type Slice = [
  cause: number,
  ns: number,
  cpu: number | null,
  parts?: [cause: number, ns: number][],
];

export type SlowPacket = [
  trial: number,
  flow: number,
  seq: number,
  /** Since the first packet of its trial. */
  at_ns: number,
  latency_ns: number,
  first: number,
  first_ns: number,
  behind: number | null,
  stretch: number | null,
  pieces: Slice[],
];

/** CPU timelines around slow packets. */
export interface Stretch {
  trial: number;
  at_ns: number;
  ns: number;
  /** Which of the names is the device's own program. */
  own?: number;
  lanes: Lane[];
}

export interface Lane {
  cpu: number;
  /** Since the stretch's begin, and whose name; each lasts until the next. */
  tasks: [at: number, name: number][];
  /** Interrupts: begin, end, name. */
  upon: [from: number, to: number, name: number][];
}

/** A sensor of a machine over the whole run. */
export interface SensorSummary {
  host: string;
  name: string;
  unit: string;
  /** In its unit. */
  readings?: TimeRange;
  /** Number of trials by state, but for `ok`. */
  states?: Record<string, number>;
}

/** The start of the nodes of one kind, in all deployments of one lab. */
export interface Starts {
  levels: Levels;
  kind: string;
  nodes: number;
  deployments: number;
  /** One node, from its own begin. */
  each: TimeRange;
  /** All of them, from the begin of the first to the end of the last. */
  all: TimeRange;
}

/** In ns. */
export interface TimeRange {
  median: number;
  smallest: number;
  largest: number;
}

export interface Topology {
  lab: string;
  levels: Levels;
  nodes: TopologyNode[];
  links: TopologyLink[];
}

export interface TopologyNode {
  name: string;
  /** `native`, `container`, `vm` or `host`. */
  kind: string;
  facts: string[];
}

export interface TopologyLink {
  name: string;
  /** `veth`, `bridge`, `nat`, `macvlan` or `vxlan`. */
  type: string;
  facts: string[];
  endpoints: TopologyEndpoint[];
}

export interface TopologyEndpoint {
  node: string;
  interface: string;
  addresses: string[];
}

export type Severity = 'serious' | 'caution' | 'info';

export interface Note {
  severity: Severity;
  code: string;
  text: string;
  /** Empty when it concerns the whole run. */
  cells: string[];
}
