// Beside the form: files, and a run by its id or link.
import { useRef, useState } from 'preact/hooks';
import { Problem } from '../../api/client';
import { fields } from './fields';
import { BadFile, sizeText } from './tensors';
import { times } from './numbers';
import { assign, assigned, files, fileTrouble, forget, importing, openRun, takeFiles } from './state';

function Importing() {
  const now = importing.value;
  if (!now) return null;
  const all = now.sent >= now.of;
  return (
    <div class="data-import">
      <p role="status">
        {all
          ? `${now.name} is sent. The service checks it…`
          : `${now.name}: ${sizeText(now.sent)} of ${sizeText(now.of)} sent`}
      </p>
      <progress max={now.of} value={now.sent} aria-label={`sent of ${now.name}`} />
      <button type="button" onClick={now.cancel}>
        Cancel
      </button>
    </div>
  );
}

function Opened() {
  const tensors = fields.value.filter((f) => f.kind === 'tensor');
  return (
    <>
      {files.value.map((file) => (
        <div class="data-file" key={file.name}>
          <p>
            <bdi>{file.name}</bdi> <small>{sizeText(file.file.size)}</small>{' '}
            <button type="button" aria-label={`take out ${file.name}`} onClick={() => forget(file)}>
              take out
            </button>
          </p>
          <ul>
            {file.parts.map((part) => (
              <li key={part.name}>
                <label>
                  <span>
                    <bdi>{part.name}</bdi>{' '}
                    <small>
                      {part.dtype} {times(part.shape)}
                    </small>
                  </span>
                  <select
                    aria-label={`use ${part.name} as`}
                    value={assigned(part)}
                    onChange={(e) => assign(part, e.currentTarget.value)}
                  >
                    <option value="">not used</option>
                    {tensors.map((f) => (
                      <option key={f.name} value={f.name}>
                        {f.name}
                      </option>
                    ))}
                    {part.shape.length >= 2 && <option value="weights">finished weights</option>}
                  </select>
                </label>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </>
  );
}

function Drop() {
  const [over, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const take = (list: FileList | null | undefined): void => {
    if (list?.length) void takeFiles([...list]);
  };
  return (
    <div
      class={`data-drop ${over ? 'data-over' : ''}`}
      onDragOver={(e) => {
        e.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(e) => {
        e.preventDefault();
        setOver(false);
        take(e.dataTransfer?.files);
      }}
    >
      <p>Drop files here, or</p>
      <button type="button" id="data-choose" onClick={() => input.current?.click()}>
        Choose files
      </button>
      <input
        ref={input}
        class="hidden"
        type="file"
        multiple
        tabIndex={-1}
        aria-label="files"
        accept=".npy,.npz,.safetensors,.json,.csv,.tsv,.txt"
        onChange={(e) => {
          take(e.currentTarget.files);
          e.currentTarget.value = '';
        }}
      />
      <p>
        <small>
          .npy, .npz or .safetensors with tensors or finished weights; a capture of a model as .safetensors; a
          request, weights or a link as .json; a table as .csv or .tsv; words as .json or .npy
        </small>
      </p>
    </div>
  );
}

function OpenRun() {
  const [text, setText] = useState('');
  const [fault, setFault] = useState('');
  const send = (event: Event): void => {
    event.preventDefault();
    setFault('');
    openRun(text.trim()).catch((error: unknown) => {
      if (!(error instanceof Problem || error instanceof BadFile)) throw error;
      setFault(
        error instanceof Problem && error.isGone
          ? 'The service keeps no run of this id (any more).'
          : error.message,
      );
    });
  };
  return (
    <form class="data-open" onSubmit={send}>
      <label for="data-run">Id of a run, or a link to this page</label>
      <div class="data-pair">
        <input
          id="data-run"
          value={text}
          autocomplete="off"
          spellcheck={false}
          aria-invalid={fault ? true : undefined}
          aria-describedby="data-run-about"
          onInput={(e) => setText(e.currentTarget.value)}
        />
        <button type="submit" disabled={!text.trim()}>
          Open
        </button>
      </div>
      <p id="data-run-about" class="bad" role="alert">
        {fault}
      </p>
    </form>
  );
}

export function Panel() {
  return (
    <aside class="data-files" aria-label="Files and runs">
      <h2>Files</h2>
      <Drop />
      <Importing />
      {fileTrouble.value && (
        <p class="bad data-trouble" role="alert">
          {fileTrouble.value}
        </p>
      )}
      <Opened />
      <h2>Open a stored run</h2>
      <OpenRun />
    </aside>
  );
}
