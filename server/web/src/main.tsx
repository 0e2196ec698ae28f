// The page begins here: the look is read from the address, the first visit is shown if it
// names nothing, and the shell draws.
import { render } from 'preact';
import { App } from './shell/App';
import { beginAnew } from './shell/sentence';
import { keepTheme } from './shell/theme';
import { keepAddress, read } from './store/address';
import { begin, change } from './store/history';
import { keepGrowing, keepRun, make } from './store/run';
import { look } from './store/state';
import { views } from './views';
import './style.css';

// An address "#lesson=NAME&step=N" begins a lesson.
const namesLesson = (): boolean => location.hash.startsWith('#lesson=');
function followLesson(): void {
  const { hash } = location;
  if (namesLesson()) void import('./shell/lessons/give').then(({ openAddress }) => openAddress(hash));
}

async function open(): Promise<void> {
  keepTheme();
  const at = await read(location.hash);
  if (at) begin(at);
  keepRun();
  keepGrowing();
  keepAddress();
  const root = document.getElementById('app') as HTMLElement;
  root.replaceChildren(); // what the document shows until the code is here
  const needsRun = views.find((v) => v.id === look.value.view)?.needs !== 'nothing';
  const { source } = look.value;
  followLesson();
  addEventListener('hashchange', followLesson);
  if (!look.value.run && !namesLesson()) {
    // asked for before the page draws
    if (source) void make(source, { keep: true });
    else if (needsRun) void beginAnew();
  }
  render(<App />, root);
  takeDrops();
}

// A file may be dropped anywhere: the browser would leave the page for it.
function takeDrops(): void {
  addEventListener('dragover', (event) => event.preventDefault());
  addEventListener('drop', (event) => {
    const dropped = [...(event.dataTransfer?.files ?? [])];
    if (event.defaultPrevented || !dropped.length) return;
    event.preventDefault();
    if (look.value.view !== 'data') change({ view: 'data' });
    void import('./views/data/state').then(({ takeFiles }) => takeFiles(dropped));
  });
}

void open();
