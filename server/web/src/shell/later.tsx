// Parts of the page whose code is loaded when they are first shown.
import { signal } from '@preact/signals';
import { Component as Base, type ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';

// If a part fails, only this part shows the fault, and the rest of the page continues to work.
export class Guard extends Base<{ name: string; of: ComponentType }, { fault: Error | null }> {
  override state: { fault: Error | null } = { fault: null };
  override componentDidCatch(fault: Error): void {
    console.error(fault);
    this.setState({ fault });
  }
  render() {
    const { of: Shown, name } = this.props;
    if (!this.state.fault) return <Shown />;
    return (
      <div class="empty" role="alert">
        <p>This view failed: {this.state.fault.message}</p>
        <button type="button" onClick={() => this.setState({ fault: null })}>
          Show {name} again
        </button>
      </div>
    );
  }
}

export function later(name: string, load: () => Promise<{ Component: ComponentType }>): ComponentType {
  const code = signal<ComponentType | null>(null);
  return () => {
    useEffect(() => {
      if (!code.value)
        void load().then((found) => {
          code.value = found.Component;
        });
    }, []);
    return code.value && <Guard name={name} of={code.value} />;
  };
}
