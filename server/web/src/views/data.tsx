// Own data: numbers, files and requests that the reader brings.
import { Panel } from './data/Panel';
import { finished } from './data/finished';
import { Form } from './data/Form';
import { Weights } from './data/Weights';
import './data.css';

export const keys = [['Ctrl+Enter', 'compute what the form asks for']] as const;

export function Component() {
  const weights = finished.value;
  return (
    <div class="data">
      <div class="data-main">{weights ? <Weights key={weights.id} of={weights} /> : <Form />}</div>
      <Panel />
    </div>
  );
}
