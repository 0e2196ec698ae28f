// Changes of a small request. Each makes a new run at once.
import { signal } from '@preact/signals';
import { make } from '../../store/run';
import { look, type Source } from '../../store/state';
import { oneAtATime, Steps } from '../../store/steps';
import { keep, type Answer } from './fresh';
import { withAnswers, type Body } from './source';

// Only one request is under way at a time. The next request has the numbers that are current when
// it is sent.
class Edits {
  // The body that is being typed, until its run is there; `of` is what it was made from.
  private readonly draft = signal<{ of: Source | null; body: Body } | null>(null);
  private readonly steps = new Steps();

  get shown(): Source | null {
    const { source } = look.value;
    const d = this.draft.value;
    return d && d.of === source && source ? { path: source.path, body: d.body } : source;
  }

  // `place` is the number that is changed; '': the change is a step of its own.
  make(body: Body, place = '', isDrag = false): void {
    this.draft.value = { of: look.peek().source, body };
    this.send({ body, step: this.steps.at(place, isDrag) });
  }

  endStep(): void {
    this.steps.end();
  }

  private readonly send = oneAtATime(async ({ body, step }: { body: Body; step: number }) => {
    const { q, k, batch, site, head } = look.peek();
    const source = { path: 'v1/attention', body: withAnswers(body) };
    await make<Answer>(source, {
      keep: true,
      at: { q, k, batch, site, head },
      made: (answer) => {
        keep(body, answer);
        const d = this.draft.peek();
        if (d) this.draft.value = d.body === body ? null : { of: source, body: d.body };
      },
      lasting: () => this.steps.begins(step),
    });
  });
}

export const edits = new Edits();
