// The switch between words and the pieces that a vocabulary divides them into.
import { change } from '../store/history';
import { look } from '../store/state';
import { hasPieces, joined } from '../store/values';

export const Joined = () =>
  hasPieces.value ? (
    <label>
      <input
        type="checkbox"
        checked={joined.value}
        onChange={(e) => {
          joined.value = e.currentTarget.checked;
          if (look.value.port) change({ port: null }, false); // it counts what the axes show
        }}
      />{' '}
      pieces joined to words
    </label>
  ) : null;
