// <attn-words>: two columns of words and the lines between them.
import { edgesOf, edgesOfRow, strongestOf } from '../parts/edges';
import { Columns, type Side } from '../parts/Columns';
import { join, joinHidden, joinWeights, single, type Groups } from '../parts/join';
import { digits } from '../parts/digits';
import { AttnElement } from './element';
import { scaleOf } from './look';

export class AttnWords extends AttnElement {
  private at = { q: -1, k: -1 };
  private kept = { q: -1, k: -1 };

  protected draw() {
    const { loaded } = this;
    if (!loaded) return <p part="message">{this.problem || 'no weights yet'}</p>;
    const groups = (names: string[], special: Set<number>): Groups =>
      this.getAttribute('pieces') === 'apart' ? single(names) : join(names, special);
    const queries = groups(loaded.queries, loaded.special.queries);
    const keys = groups(loaded.keys, loaded.special.keys);
    const weights = joinWeights(loaded.weights, queries, keys);
    const cols = keys.names.length;
    const shown = {
      q: this.at.q >= 0 ? this.at.q : this.kept.q,
      k: this.at.k >= 0 ? this.at.k : this.kept.k,
    };
    const tell = (type: 'attn-select' | 'attn-hover', { q, k }: { q: number; k: number }): void =>
      this.tell(type, {
        row: queries.first[q] ?? -1,
        col: keys.first[k] ?? -1,
        weight: q >= 0 && k >= 0 ? (weights[q * cols + k] as number) : null,
      });
    const point = (side: Side, group: number): void => {
      this.at = side === 'query' ? { q: group, k: -1 } : { q: -1, k: group };
      this.refresh(false);
      tell('attn-hover', this.at);
    };
    const choose = (side: Side, group: number): void => {
      const name = side === 'query' ? 'q' : 'k';
      this.kept = { ...this.kept, [name]: this.kept[name] === group ? -1 : group };
      this.refresh(false);
      tell('attn-select', this.kept);
    };
    return (
      <div part="words">
        <Columns
          queries={queries}
          keys={keys}
          weights={weights}
          hides={joinHidden(loaded.hidden, queries, keys)}
          edges={strongestOf(edgesOf(weights, cols, { p: 0.7 }))}
          more={(q) => edgesOfRow(weights.subarray(q * cols, (q + 1) * cols), q, { p: 1 }, 20)}
          q={shown.q}
          k={shown.k}
          pins={[]}
          scale={scaleOf(this, this.isDark)}
          digits={digits}
          point={point}
          choose={choose}
        />
      </div>
    );
  }
}
