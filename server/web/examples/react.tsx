/** @jsxImportSource react */
// The elements in React 19, which sets properties and listens to events of custom elements itself.
import { useState } from 'react';
import { createRoot } from 'react-dom/client';
import type {} from '../attn-react'; // the types of the elements

const words = ['le', 'chat', 'dort'];
const weights = [
  [0.8, 0.15, 0.05],
  [0.1, 0.85, 0.05],
  [0.05, 0.3, 0.65],
];

function Page() {
  const [said, setSaid] = useState('nothing yet');
  const data = { weights, queries: words, keys: ['the', 'cat', 'sleeps'] };
  return (
    <>
      <attn-words
        data={data}
        onattn-select={(event) => setSaid(`${event.detail.row}, ${event.detail.col}`)}
      />
      <attn-heatmap data={data} colormap="viridis" />
      <p id="said">{said}</p>
    </>
  );
}

createRoot(document.getElementById('root') as HTMLElement).render(<Page />);
