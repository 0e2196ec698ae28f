// Sharing: the address of the whole view, and the request as a program that makes the same run.
import { useEffect, useState } from 'preact/hooks';
import { address, base } from '../api/client';
import { permalink, SOURCE_MOST } from '../store/address';
import { announce, look, type Source } from '../store/state';
import { Dialog, dialog } from './dialogs';

const quote = (text: string): string => `'${text.replace(/'/g, `'\\''`)}'`;

// The request as one command of a shell.
export const asCurl = (source: Source): string =>
  `curl ${quote(address(source.path).href)} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quote(JSON.stringify(source.body))}`;

// The request as a Python program of the standard library alone.
export const asPython = (source: Source): string => `import json
from urllib.request import Request, urlopen

body = json.loads(r"""${JSON.stringify(source.body).replace(/"""/g, '\\u0022\\u0022\\u0022')}""")
request = Request(${JSON.stringify(address(source.path).href)}, json.dumps(body).encode(), {"Content-Type": "application/json"})
with urlopen(request) as reply:
    answer = json.load(reply)
print(json.dumps(answer, indent=1)[:2000])
`;

async function copy(text: string, what: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  announce(`${what} copied`);
}

function Copy({ name, text }: { name: string; text: string }) {
  const [done, setDone] = useState(false);
  return (
    <div class="copy">
      <button type="button" onClick={() => void copy(text, name).then(() => setDone(true), () => setDone(false))}>{done ? 'copied' : `copy as ${name}`}</button>
      <pre tabIndex={0} aria-label={name}>{text}</pre>
    </div>
  );
}

export function Share() {
  const [link, setLink] = useState('');
  const { source } = look.value;
  useEffect(() => { void permalink(look.value).then((fragment) => setLink(base.href + fragment)); }, [look.value]);
  const long = source !== null && !link.includes('i=') && link !== '';
  return (
    <Dialog title="Share" close={() => { dialog.value = ''; }}>
      <Copy name="link" text={link} />
      <p>Whoever has this link may look at this run as long as the service keeps it.
        {source && !long && ' The link also holds the request, so the run is made again when it has expired.'}
        {long && ` The request is too long for a link (${SOURCE_MOST} characters).`}</p>
      {source && <Copy name="curl" text={asCurl(source)} />}
      {source && <Copy name="Python" text={asPython(source)} />}
    </Dialog>
  );
}
