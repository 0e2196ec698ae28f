// The canvas of a map: painted in a worker where the browser can hand a canvas over, else here.
import { Painter } from './painter';
import type { At, Codes, Frame, Palette, Values } from './types';

export type Order =
  | { do: 'begin'; canvas: OffscreenCanvas }
  | { do: 'look'; palette: Palette }
  | { do: 'clear' }
  | { do: 'put'; at: At; codes: Codes }
  | { do: 'drop'; at: At }
  | { do: 'exact'; values: Values | null }
  | { do: 'draw'; frame: Frame };

// What the worker says: that it can paint, and that a frame is drawn.
export type Answer = { did: 'load' } | { did: 'draw'; more: boolean };

export interface Surface {
  order(order: Order, transfer?: Transferable[]): void;
  end(): void;
}

// Orders wait until the worker says that it can paint. A canvas can be handed over once and never
// comes back, so it goes then: if the code of the worker does not load, or cannot paint, the main
// thread still has a fresh canvas and all orders.
function inWorker(canvas: HTMLCanvasElement, code: URL, drawn: (more: boolean) => void): Surface {
  const waiting: [Order, Transferable[]][] = [];
  let painter: Surface | null = null;
  const begin = (to: Surface): void => {
    painter = to;
    for (const [order, transfer] of waiting.splice(0)) to.order(order, transfer);
  };
  const worker = new Worker(code, { type: 'module' });
  worker.addEventListener('message', ({ data }: MessageEvent<Answer>) => {
    if (data.did === 'draw') return drawn(data.more);
    const offscreen = canvas.transferControlToOffscreen();
    worker.postMessage({ do: 'begin', canvas: offscreen } satisfies Order, [offscreen]);
    begin({
      order: (order, transfer = []) => worker.postMessage(order, transfer),
      end: () => worker.terminate(),
    });
  });
  worker.addEventListener('error', () => {
    if (painter) return;
    worker.terminate();
    begin(here(canvas, drawn));
  });
  return {
    order(order, transfer = []) {
      if (painter) painter.order(order, transfer);
      else waiting.push([order, transfer]);
    },
    end() {
      worker.terminate();
      waiting.length = 0;
    },
  };
}

function here(canvas: HTMLCanvasElement, drawn: (more: boolean) => void): Surface {
  const painter = new Painter(canvas, false);
  return {
    order(order) {
      const more = order.do === 'begin' ? null : painter.obey(order);
      if (more !== null) drawn(more);
    },
    end() {
      /* nothing runs */
    },
  };
}

// `code` is the address of the worker's code; null: paint here.
export function surface(
  canvas: HTMLCanvasElement,
  code: URL | null,
  drawn: (more: boolean) => void,
): Surface {
  const can =
    code !== null &&
    typeof Worker === 'function' &&
    typeof OffscreenCanvas === 'function' &&
    'transferControlToOffscreen' in canvas;
  return can ? inWorker(canvas, code, drawn) : here(canvas, drawn);
}
