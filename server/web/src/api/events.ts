// Answers that come as server-sent events. A stream is open while its work goes on and no longer,
// since tabs share the connections of a browser (turns.ts).
import { ask, Problem, type Options, type ProblemBody } from './client';

const lost = (): Problem =>
  new Problem(0, { title: 'No answer', status: 0, detail: 'the service ended its answer early' });

const field = (block: string, name: string): string =>
  new RegExp(`^${name}: ?(.*)$`, 'm').exec(block)?.[1] ?? '';

// The kinds and data of the events, as they come. The event "error" is thrown, and "done" is the last.
export async function* eventsOf(path: string, options: Options): AsyncGenerator<[string, unknown]> {
  const reply = await ask(path, { ...options, accept: 'text/event-stream' });
  const reader = reply.body?.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string>).getReader();
  let rest = '';
  for (;;) {
    const part = await reader?.read().catch((error: unknown) => {
      throw options.signal?.aborted ? error : lost();
    });
    if (!part || part.done) throw lost();
    const blocks = (rest + part.value).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const kind = field(block, 'event');
      if (!kind) continue; // a comment, which keeps the connection awake
      const data: unknown = JSON.parse(field(block, 'data'));
      if (kind === 'error') throw new Problem((data as ProblemBody).status, data as ProblemBody);
      yield [kind, data];
      if (kind === 'done') return;
    }
  }
}
