// The text of an example and the choice among its cases, one of which is shown.
import { casesOf, type Example } from './examples';
import { What } from './What';

export function Cases({ of, at, go }: { of: Example; at: number; go: (at: number) => void }) {
  const cases = casesOf(of);
  const step = (by: number, name: string, sign: string) => (
    <button
      type="button"
      class="icon"
      aria-label={`${name} case`}
      title={cases[at + by]?.title}
      disabled={!cases[at + by]}
      onClick={() => go(at + by)}
    >
      {sign}
    </button>
  );
  return (
    <>
      <What of={of.what} />
      {cases.length > 1 && (
        <p class="gallery-cases">
          {step(-1, 'previous', '‹')}
          <select
            aria-label="case of the example"
            value={at}
            onChange={(e) => go(Number(e.currentTarget.value))}
          >
            {cases.map((one, i) => (
              <option key={i} value={i}>
                {i + 1} of {cases.length}: {one.title}
              </option>
            ))}
          </select>
          {step(1, 'next', '›')}
        </p>
      )}
    </>
  );
}
