// What undo takes as one step while numbers are changed, and requests that follow the changes.
const PAUSE = 600; // ms without a key after which the next change of a number is a step of its own

// All changes of one number are one step for undo. The step ends when the reader leaves the number,
// presses Enter or pauses; a drag is one step, however long it pauses.
export class Steps {
  private step = 0;
  private place = '';
  private time = 0;
  private kept = 0; // the latest step whose state before it is kept for undo

  at(place: string, isDrag = false): number {
    const now = performance.now();
    if (place === '' || place !== this.place || (!isDrag && now - this.time > PAUSE)) this.step++;
    this.place = place;
    this.time = now;
    return this.step;
  }

  end(): void {
    this.place = '';
  }

  // Whether this is the first change of a step.
  begins(step: number): boolean {
    const isNew = this.kept !== step;
    this.kept = step;
    return isNew;
  }
}

// Does `work` for the latest input, one at a time: inputs that come meanwhile replace each other.
export function oneAtATime<T>(work: (input: T) => Promise<unknown>): (input: T) => void {
  let wanted: { input: T } | null = null;
  let isBusy = false;
  const run = async (): Promise<void> => {
    isBusy = true;
    while (wanted) {
      const { input } = wanted;
      wanted = null;
      await work(input);
    }
    isBusy = false;
  };
  return (input) => {
    wanted = { input };
    if (!isBusy) void run();
  };
}
