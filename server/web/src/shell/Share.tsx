// Sharing: the address of the whole view, and the request as a program that makes the same run.
import { useEffect, useState } from 'preact/hooks';
import { address, base } from '../api/client';
import { describe } from '../api/runs';
import { position } from '../parts/digits';
import { permalink, SOURCE_MOST } from '../store/address';
import { ownFile, run, site } from '../store/run';
import { announce, asked, drawing, head, look, type Source } from '../store/state';
import { Dialog, dialog } from './dialogs';
import { command, download, partOf, refusal, save, type Kind } from './exports';

const quote = (text: string): string => `'${text.replace(/'/g, `'\\''`)}'`;

// The body as a program sends it that waits for the whole answer.
function whole(source: Source): string {
  const body = { ...source.body };
  delete body.stream;
  return JSON.stringify(body);
}

// The request as one command of a shell.
export const asCurl = (source: Source): string =>
  [
    `curl ${quote(address(source.path).href)}`,
    "  -H 'Content-Type: application/json'",
    `  -d ${quote(whole(source))}`,
  ].join(' \\\n');

// The request as a Python program of the standard library alone.
export const asPython = (source: Source): string => `import json
from urllib.request import Request, urlopen

body = json.loads(r"""${whole(source).replace(/"""/g, '\\u0022\\u0022\\u0022')}""")
kind = {"Content-Type": "application/json"}
request = Request(${JSON.stringify(address(source.path).href)}, json.dumps(body).encode(), kind)
with urlopen(request) as reply:
    answer = json.load(reply)
print(json.dumps(answer, indent=1)[:2000])
`;

// The request as a C program of libcurl. A text of JSON becomes lines of a C string.
export function asC(source: Source): string {
  const text = whole(source)
    .replace(/[\\"]/g, (c) => `\\${c}`)
    .replace(/\?\?/g, '?\\?');
  const lines = text.match(/(?:\\.|[^\\]){1,90}/gs) ?? [''];
  return `/* cc example.c $(pkg-config --cflags --libs libcurl) -o example */
#include <curl/curl.h>

static const char body[] =
${lines.map((line) => `    "${line}"`).join('\n')};

int main(void) {
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!curl || !headers)
        return 1;
    curl_easy_setopt(curl, CURLOPT_URL, ${JSON.stringify(address(source.path).href)});
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    CURLcode code = curl_easy_perform(curl); /* the answer goes to standard output */
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return code != CURLE_OK;
}
`;
}

async function copy(text: string, what: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  announce(`${what} copied`);
}

function Copy({ name, text }: { name: string; text: string }) {
  const [done, setDone] = useState(false);
  return (
    <div class="copy">
      <button
        type="button"
        onClick={() =>
          void copy(text, name).then(
            () => setDone(true),
            () => setDone(false),
          )
        }
      >
        {done ? 'copied' : `copy as ${name}`}
      </button>
      <pre tabIndex={0} aria-label={name}>
        {text}
      </pre>
    </div>
  );
}

type Named = readonly (readonly [Kind, string])[];
const pictures: Named = [
  ['png', 'PNG'],
  ['svg', 'SVG'],
];
const numbers: Named = [
  ['csv', 'CSV'],
  ['npy', '.npy'],
  ['html', 'one HTML file'],
];

function Export() {
  const [says, setSays] = useState('');
  const at = site.value;
  if (!at) return null;
  const part = partOf(at);
  const run = (kind: Kind): void => {
    setSays('one moment…');
    save(kind, head.value, part).then(
      () => setSays(`saved as ${kind}`),
      (error: Error) => setSays(error.message),
    );
  };
  const why = refusal('npy', part);
  const own = drawing.value?.() != null; // the view is drawn, else the map of the head
  const buttons = (kinds: Named) =>
    kinds.map(([kind, name]) => (
      <button type="button" key={kind} disabled={refusal(kind, part) !== ''} onClick={() => run(kind)}>
        {name}
      </button>
    ));
  return (
    <section class="export">
      <h3>
        Export: queries {position(part.rows[0])} to {position(part.rows[1] - 1)}, keys{' '}
        {position(part.cols[0])} to {position(part.cols[1] - 1)}
      </h3>
      <p class="buttons">
        <span>{own ? 'this view as a picture' : 'the map as a picture'}</span> {buttons(pictures)}
      </p>
      <p class="buttons">
        <span>its weights</span> {buttons(numbers)}
      </p>
      <p role="status" class="says">
        {says || (why && `For numbers ${why}.`)}
      </p>
      <Copy name={own ? 'curl of the map' : 'curl of the picture'} text={command('svg', head.value, part)} />
    </section>
  );
}

// Such as "14:05", or with the day if it is another one.
function timeOf(when: Date): string {
  const isToday = when.toDateString() === new Date().toDateString();
  return when.toLocaleString('en-GB', {
    hour: '2-digit',
    minute: '2-digit',
    ...(isToday ? {} : { day: 'numeric', month: 'long' }),
  });
}

// What a link without a request is worth, and the file that the run was made of, if this page has it.
function Kept() {
  const [until, setUntil] = useState(0);
  const [says, setSays] = useState('');
  const id = look.value.run;
  const file = ownFile.value?.run === id ? ownFile.value : null;
  useEffect(() => {
    describe(id).then(
      (of) => setUntil(of.expires_ms),
      () => setUntil(run.value?.expires_ms ?? 0),
    );
  }, [id]);
  const keep = (of: NonNullable<typeof file>): void => {
    of.make().then(
      (blob) => {
        download(blob, of.name);
        setSays('saved; drop it on "Own data" to make the run again');
      },
      (error: Error) => setSays(error.message),
    );
  };
  return (
    <>
      <p>
        The link shows the run as long as the service keeps it
        {until > 0 && (
          <>
            {' '}
            (until <time dateTime={new Date(until).toISOString()}>{timeOf(new Date(until))}</time>, and longer
            if someone looks at it)
          </>
        )}
        {file ? '; save the file to keep it.' : '.'}
      </p>
      {file && (
        <p class="buttons">
          <button type="button" onClick={() => keep(file)}>
            Save <bdi>{file.name}</bdi>
          </button>{' '}
          <span role="status">{says}</span>
        </p>
      )}
    </>
  );
}

export function Component() {
  const [link, setLink] = useState('');
  const own = asked.value; // the view shows numbers of its own, and no run
  const source = own ?? look.value.source;
  useEffect(() => {
    void permalink(look.value).then((fragment) => setLink(base.href + fragment));
  }, [look.value]);
  const long = !own && source !== null && !link.includes('i=') && link !== '';
  return (
    <Dialog
      title="Share"
      close={() => {
        dialog.value = '';
      }}
    >
      <Copy name="link" text={link} />
      {own ? (
        <p>The link holds all numbers of this view.</p>
      ) : source ? (
        <p>
          Whoever has this link may look at this run as long as the service keeps it.
          {long
            ? ` The request is too long for a link (${SOURCE_MOST} characters).`
            : ' The link also holds the request, so the run is made again when it has expired.'}
        </p>
      ) : (
        <Kept />
      )}
      {!own && <Export />}
      {source && (
        <details>
          <summary>The request as a program</summary>
          <Copy name="curl" text={asCurl(source)} />
          <Copy name="Python" text={asPython(source)} />
          <Copy name="C" text={asC(source)} />
        </details>
      )}
    </Dialog>
  );
}
