// Changes of a small request. Each makes a new run at once.
import { signal } from '@preact/signals';
import { make } from '../../store/run';
import { look, type Source } from '../../store/state';
import { keep, type Answer } from './fresh';
import { withAnswers, type Body } from './source';

const PAUSE = 600; // ms without a key after which the next change of a number is a step of its own

// All changes of one number are one step for undo. The step ends when the reader leaves the number,
// presses Enter or pauses.
class Steps {
  private step = 0;
  private place = '';
  private time = 0;
  private kept = 0; // the latest step whose state before it is kept for undo

  at(place: string): number {
    const now = performance.now();
    if (place === '' || place !== this.place || now - this.time > PAUSE) this.step++;
    this.place = place;
    this.time = now;
    return this.step;
  }

  end(): void {
    this.place = '';
  }

  // Whether this is the first run of a step.
  begins(step: number): boolean {
    const isNew = this.kept !== step;
    this.kept = step;
    return isNew;
  }
}

// Only one request is under way at a time. The next request has the numbers that are current when
// it is sent.
class Edits {
  // The body that is being typed, until its run is there; `of` is what it was made from.
  private readonly draft = signal<{ of: Source | null; body: Body } | null>(null);
  private readonly steps = new Steps();
  private wanted: { body: Body; step: number } | null = null;
  private sending = false;

  get shown(): Source | null {
    const { source } = look.value;
    const d = this.draft.value;
    return d && d.of === source && source ? { path: source.path, body: d.body } : source;
  }

  // `place` is the number that is changed; '': the change is a step of its own.
  make(body: Body, place = ''): void {
    this.draft.value = { of: look.peek().source, body };
    this.wanted = { body, step: this.steps.at(place) };
    if (!this.sending) void this.send();
  }

  endStep(): void {
    this.steps.end();
  }

  private async send(): Promise<void> {
    this.sending = true;
    while (this.wanted) {
      const { body, step } = this.wanted;
      this.wanted = null;
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
    }
    this.sending = false;
  }
}

export const edits = new Edits();
