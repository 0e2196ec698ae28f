// The weights of a head between words.
import { whole, type Head } from '../api/runs';
import type { Weights } from '../api/answers';
import type { Cells } from '../draw/local';
import { joinHidden, joinWeights, type Groups } from '../parts/join';

export interface Axes {
  queries: Groups;
  keys: Groups;
}

export const joinCells = ({ weights, hidden }: Weights, { queries, keys }: Axes): Cells => ({
  queries: queries.names.length,
  keys: keys.names.length,
  weights: joinWeights(weights, queries, keys),
  hides: joinHidden(hidden, queries, keys),
});

export const cellsOf = async (head: Head, axes: Axes): Promise<Cells> => joinCells(await whole(head), axes);
