// What a step of a lesson does with the page: it makes the run of the step and shows its view of it.
import { batch, signal } from '@preact/signals';
import { fetchLesson, parse, type Lesson, type Step } from '../../api/lessons';
import { change } from '../../store/history';
import { first, make, trouble } from '../../store/run';
import { announce, look, run, type Look, type Source } from '../../store/state';
import { presenting, running, type Running } from '../../store/lesson';

export const refused = signal(''); // why a lesson could not be opened

const sourceOf = ({ path, body }: NonNullable<Step['request']>): Source => ({
  path,
  body: path === 'v1/attention' ? body : { return: [], offset_unit: 'utf16', ...body },
});

// The request and the look of a step, which may be those of the steps before it.
function stateOf({ lesson, step }: Running): { source: Source | null; at: Step['look'] } {
  const before = lesson.steps.slice(0, step + 1).reverse();
  const request = before.find((s) => s.request)?.request;
  return { source: request ? sourceOf(request) : null, at: before.find((s) => s.look)?.look };
}

const headOf = (head: unknown): number | 'mean' => (head === 'mean' ? 'mean' : Number(head) || 0);

// Shows what the step is about.
export function show(): void {
  const now = running.value;
  if (!now) return;
  const { source, at } = stateOf(now);
  const patch: Partial<Look> = { q: at?.query ?? -1, k: at?.key ?? -1, pins: [], port: null, range: null };
  if (at?.site !== undefined) patch.site = at.site;
  if (at?.head !== undefined) patch.head = headOf(at.head);
  const view = at?.view ?? look.value.view;
  const shown = look.value.source;
  const isShown =
    run.value && run.value.id === look.value.run && JSON.stringify(shown) === JSON.stringify(source);
  if (source && !isShown) void make(source, { view, at: patch });
  else change({ ...(run.value && source ? first(run.value) : {}), ...patch, view });
}

export function begin(lesson: Lesson, name: string, step = 0): void {
  batch(() => {
    refused.value = '';
    trouble.value = null;
    running.value = { lesson, name, step: Math.min(Math.max(step, 0), lesson.steps.length - 1) };
  });
  show();
}

export function go(step: number): void {
  const now = running.value;
  if (!now || step < 0 || step >= now.lesson.steps.length) return;
  running.value = { ...now, step };
  announce(`step ${step + 1} of ${now.lesson.steps.length}`);
  show();
}

export async function open(name: string, step = 0): Promise<void> {
  try {
    begin(await fetchLesson(name), name, step);
  } catch (error) {
    refused.value = (error as Error).message;
    change({ view: 'lessons' });
  }
}

export async function openFile(file: File): Promise<void> {
  try {
    begin(parse(await file.text()), '');
  } catch (error) {
    refused.value = `${file.name}: ${(error as Error).message}`;
  }
}

// Opens what "#lesson=NAME&step=N" names; steps count from 1.
export function openAddress(fragment: string): void {
  const fields = new URLSearchParams(fragment.slice(1));
  void open(fields.get('lesson') ?? '', Number(fields.get('step') ?? 1) - 1 || 0);
}

export const linkTo = ({ name, step }: Running): string =>
  `${location.origin}${location.pathname}#lesson=${encodeURIComponent(name)}&step=${step + 1}`;

export function present(on: boolean): void {
  presenting.value = on;
  document.documentElement.classList.toggle('presenting', on);
  if (on) void document.documentElement.requestFullscreen?.().catch(() => undefined);
  else if (document.fullscreenElement) void document.exitFullscreen().catch(() => undefined);
}

export function end(): void {
  present(false);
  running.value = null;
  change({ view: 'lessons' });
}
