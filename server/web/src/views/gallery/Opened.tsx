// Above the view that shows a case of an example: the example's title, text and other cases.
import { useEffect, useState } from 'preact/hooks';
import { change } from '../../store/history';
import { look } from '../../store/state';
import { Cases } from './Cases';
import { casesOf, example, list, type Example } from './examples';
import { useOpening } from './useOpening';

export function Component() {
  const { example: place, view } = look.value;
  const [id = '', number = ''] = place.split('.');
  const at = Number(number);
  const [of, setOf] = useState<Example | null>(null);
  const { open, large } = useOpening(view);
  useEffect(() => {
    let here = true;
    list()
      .then((all) => {
        const entry = all.find((one) => one.id === id);
        return entry ? example(entry, () => true) : null;
      })
      .then(
        (found) => {
          if (here) setOf(found);
        },
        () => undefined,
      ); // without the service's text the run is whole, too
    return () => {
      here = false;
    };
  }, [id]);
  const one = of?.id === id ? casesOf(of)[at] : undefined;
  return (
    <section class="gallery-opened" aria-label="Example">
      {of && one && (
        <>
          <h2>{of.title}</h2>
          <Cases of={of} at={at} go={(next) => open(of, next)} />
          <button type="button" onClick={() => change({ view: 'gallery' })}>
            All examples
          </button>
        </>
      )}
      {large}
    </section>
  );
}
