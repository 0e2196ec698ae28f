// A component that is drawn again when one of its properties or a signal of its own changes, and not
// whenever what is around it is drawn.
import { Component, type ComponentChild, type ComponentType } from 'preact';

export function still<P extends object>(draw: (props: P) => ComponentChild): ComponentType<P> {
  const Draw = draw as ComponentType<P>;
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      return (Object.keys(next) as (keyof P)[]).some((name) => next[name] !== this.props[name]);
    }
    render() {
      return <Draw {...(this.props as P)} />;
    }
  };
}
