// A case at large: its picture, its request, the answer of the service, and the same as a command.
import { useEffect, useState } from 'preact/hooks';
import { ask, Problem } from '../../api/client';
import { pretty } from '../../api/json';
import { Dialog } from '../../shell/dialogs';
import { asCurl } from '../../shell/Share';
import { isDark } from '../../shell/theme';
import { announce } from '../../store/state';
import {
  bodyOf,
  casesOf,
  isDrawable,
  isRefused,
  isRun,
  pictureOf,
  type Case as Of,
  type Example,
  type Picture,
} from './examples';
import { Canvas } from './Canvas';
import { Cases } from './Cases';

const MOST = 30000; // characters that are shown of a text

const cut = (text: string): string =>
  text.length > MOST ? `${text.slice(0, MOST)}\n… ${text.length - MOST} more characters` : text;

async function answerOf(of: Of): Promise<string> {
  if (isRefused(of)) return pretty(of.response);
  const accept = of.accept ?? 'application/json';
  const reply = await ask(of.path, {
    method: of.method === 'GET' ? 'GET' : 'POST',
    accept,
    ...(of.method === 'GET' ? {} : { json: bodyOf(of) }),
  });
  return accept === 'application/json' ? pretty(await reply.json()) : reply.text();
}

export function Case({
  of: whole,
  at,
  close,
  go,
  show,
  edit,
}: {
  of: Example;
  at: number; // of casesOf
  close: () => void;
  go: (at: number) => void;
  show: () => void;
  edit: () => void;
}) {
  const of = casesOf(whole)[at] as Of;
  const [answer, setAnswer] = useState('');
  const [picture, setPicture] = useState<Picture | null>(null);
  const [copied, setCopied] = useState(false);
  const dark = isDark.value;
  useEffect(() => {
    let here = true;
    setAnswer('');
    setCopied(false);
    answerOf(of).then(
      (text) => {
        if (here) setAnswer(text);
      },
      (error: unknown) => {
        if (here) setAnswer(error instanceof Problem ? pretty(error.body) : String(error));
      },
    );
    return () => {
      here = false;
    };
  }, [of]);
  useEffect(() => {
    let here = true;
    setPicture(null);
    if (isDrawable(of))
      pictureOf(whole.id, of, dark, () => true).then(
        (made) => {
          if (here) setPicture(made);
        },
        () => undefined,
      );
    return () => {
      here = false;
    };
  }, [of, dark]);
  const copy = (): void => {
    void navigator.clipboard.writeText(asCurl({ path: of.path, body: bodyOf(of) })).then(
      () => {
        setCopied(true);
        announce('curl copied');
      },
      () => announce('the browser did not let the page copy'),
    );
  };
  return (
    <div onKeyDown={(e) => e.stopPropagation()}>
      <Dialog title={whole.title} close={close}>
        <Cases of={whole} at={at} go={go} />
        <p class="gallery-line">
          <code>
            {of.method} {of.path}
          </code>
          {isRefused(of) && <span> is refused with {of.status}</span>}
          <span class="gallery-ends">
            {isRun(of) && (
              <>
                <button type="button" class="main" onClick={show}>
                  Show the run
                </button>
                <button type="button" onClick={edit}>
                  Edit the request
                </button>
              </>
            )}
            <button type="button" class="gallery-copy" onClick={copy}>
              {copied ? 'copied' : 'copy as curl'}
            </button>
          </span>
        </p>
        {picture && (
          <div class="gallery-large" tabIndex={0} role="group" aria-label="picture">
            <Canvas picture={picture} name={`picture of ${of.title}`} />
          </div>
        )}
        <h3>Request</h3>
        <pre class="gallery-json" tabIndex={0} aria-label="request">
          {cut(pretty(of.request))}
        </pre>
        <h3>Answer</h3>
        <pre class="gallery-json" tabIndex={0} aria-label="answer">
          {answer ? cut(answer) : '…'}
        </pre>
      </Dialog>
    </div>
  );
}
