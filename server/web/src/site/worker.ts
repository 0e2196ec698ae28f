// The worker of the static site in which the service runs. The first message is the module, gzipped;
// each further one is a request, which is answered under its number.
import { type Ask, Service } from './wasm';

export type Question = { id: number; ask: Ask };
export type Answer = { id: number; reply: ReturnType<Service['ask']> | null; fault: string };

let service: Promise<Service> | null = null;

async function start(packed: Uint8Array<ArrayBuffer>): Promise<Service> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Service(await WebAssembly.compile(await new Response(stream).arrayBuffer()));
}

async function answer({ id, ask }: Question): Promise<void> {
  let said: Answer;
  try {
    said = { id, reply: (await (service as Promise<Service>)).ask(ask), fault: '' };
  } catch (error) {
    said = { id, reply: null, fault: (error as Error).message };
  }
  const moved = said.reply ? [said.reply.body.buffer] : [];
  (self as unknown as Worker).postMessage(said, moved);
}

addEventListener('message', ({ data }: MessageEvent<Uint8Array<ArrayBuffer> | Question>) => {
  if (data instanceof Uint8Array) service = start(data);
  else void answer(data);
});
