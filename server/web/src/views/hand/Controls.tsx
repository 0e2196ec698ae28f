// The controls above the matrices: what is computed, and how large the matrices are.
import { NumberInput } from '../../parts/NumberInput';
import { EXAMPLES, MOST, sizesOf, withSizes, type Hand, type Sizes as Counts } from './numbers';

interface Props {
  hand: Hand;
  set: (hand: Hand, place?: string, isDrag?: boolean) => void;
  endStep: () => void;
}

function Stepper({
  name,
  value,
  most,
  set,
}: {
  name: string;
  value: number;
  most: number;
  set: (to: number) => void;
}) {
  return (
    <span class="hand-stepper" role="group" aria-label={name}>
      <span>{name}</span>
      <button
        type="button"
        class="icon"
        aria-label={`fewer: ${name}`}
        disabled={value <= 1}
        onClick={() => set(value - 1)}
      >
        −
      </button>
      <output>{value}</output>
      <button
        type="button"
        class="icon"
        aria-label={`more: ${name}`}
        disabled={value >= most}
        onClick={() => set(value + 1)}
      >
        +
      </button>
    </span>
  );
}

export function Sizes({ hand, set }: Pick<Props, 'hand' | 'set'>) {
  const sizes = sizesOf(hand);
  const { queries, keys, width, valueWidth } = sizes;
  const { heads } = hand;
  const to = (next: Partial<Counts & { heads: number }>): void =>
    set(withSizes(hand, { ...sizes, heads, ...next }));
  if (!heads)
    return (
      <>
        <Stepper name="queries" value={queries} most={MOST} set={(n) => to({ queries: n })} />
        <Stepper name="keys" value={keys} most={MOST} set={(n) => to({ keys: n })} />
        <Stepper name="numbers of q and k" value={width} most={MOST} set={(n) => to({ width: n })} />
        <Stepper name="numbers of v" value={valueWidth} most={MOST} set={(n) => to({ valueWidth: n })} />
      </>
    );
  return (
    <>
      <Stepper name="words" value={queries} most={MOST} set={(n) => to({ queries: n, keys: n })} />
      <Stepper name="heads" value={heads} most={Math.floor(MOST / width)} set={(n) => to({ heads: n })} />
      <Stepper
        name="numbers of a head"
        value={width}
        most={Math.floor(MOST / heads)}
        set={(n) => to({ width: n })}
      />
    </>
  );
}

const COLDEST = 0.1;
const HOTTEST = 10;

export function Controls({ hand, set, endStep }: Props) {
  const { width } = sizesOf(hand);
  const field = (
    name: 'scale' | 'softcap' | 'temperature',
    hint: string,
    value: number | null,
    fits: (x: number) => boolean,
  ) => (
    <label>
      {name}{' '}
      <NumberInput
        value={value}
        hint={hint}
        mayBeEmpty
        onEdit={(x) => {
          if (x === null || fits(x)) set({ ...hand, [name]: name === 'temperature' ? (x ?? 1) : x }, name);
        }}
        onEnd={endStep}
      />
    </label>
  );
  return (
    <div class="hand-controls">
      <div class="hand-examples" role="group" aria-label="Begin with">
        {EXAMPLES.map(({ title, hand: example }) => (
          <button type="button" key={title} onClick={() => set(example)}>
            {title}
          </button>
        ))}
      </div>
      <label class="hand-causal">
        <input
          type="checkbox"
          role="switch"
          checked={hand.causal}
          onChange={(e) => set({ ...hand, causal: e.currentTarget.checked })}
        />{' '}
        causal
      </label>
      {field('scale', `1/√${width}`, hand.scale, () => true)}
      {field('softcap', 'none', hand.softcap, (x) => x >= 0)}
      {field('temperature', '1', hand.temperature === 1 ? null : hand.temperature, (x) => x > 0)}
      <input
        type="range"
        aria-label="temperature, from sharp to even"
        min={Math.log10(COLDEST)}
        max={Math.log10(HOTTEST)}
        step={0.05}
        value={Math.log10(hand.temperature)}
        onInput={(e) =>
          set(
            { ...hand, temperature: Number((10 ** e.currentTarget.valueAsNumber).toPrecision(2)) },
            'temperature',
            true,
          )
        }
        onChange={endStep}
      />
      {hand.seen && (
        <button type="button" onClick={() => set({ ...hand, seen: null })}>
          Show all keys
        </button>
      )}
    </div>
  );
}
