// Small conventions shared by the plots.

import type { Model } from '../model';
import type { Cell, TrialSummary } from '../summary';

/** Markers of an emulated cell are hollow: its times say nothing of a real machine's. */
export function quantileFill(cell: Cell): string {
  return cell.environment.emulated ? 'marker hollow' : 'marker';
}

/** `vm, trial 12 (replicate 2)`. */
export function trialName(model: Model, trial: TrialSummary): string {
  const label = model.seriesOf.get(trial.cell)?.label ?? trial.cell;
  return `${label}, trial ${trial.trial} (replicate ${trial.replicate})`;
}
