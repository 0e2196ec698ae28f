// The page begins here: the look is read from the address, a sentence is translated if it names
// nothing, and the shell draws.
import { render } from 'preact';
import { App } from './shell/App';
import { firstSentence } from './shell/sentence';
import { keepTheme } from './shell/theme';
import { keepAddress, read } from './store/address';
import { begin } from './store/history';
import { keepRun, make } from './store/run';
import './style.css';

async function open(): Promise<void> {
  keepTheme();
  const at = await read(location.hash);
  if (at) begin(at);
  keepRun();
  keepAddress();
  render(<App />, document.getElementById('app') as HTMLElement);
  if (!at) await make(firstSentence());
  else if (!at.run && at.source) await make(at.source, { keep: true });
}

void open();
