// The few lines that stand in for a UI framework: make an element with attributes and children.
// Text always goes in as text nodes, so nothing from a summary is ever parsed as HTML.

export type Child = Node | string | number | null | undefined | false | Child[];
type Attributes = Record<string, unknown>;

function append(parent: Element, children: Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) append(parent, child);
    else if (child instanceof Node) parent.append(child);
    else if (child !== null && child !== undefined && child !== false) parent.append(String(child));
  }
}

function apply(element: HTMLElement | SVGElement, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on') && typeof value === 'function') {
      element.addEventListener(name.slice(2), value as EventListener);
    } else if (name === 'style' && typeof value === 'object') {
      for (const [key, v] of Object.entries(value as Record<string, string>)) {
        element.style.setProperty(key, v);
      }
    } else element.setAttribute(name, value === true ? '' : String(value));
  }
}

/** An HTML element. Attributes that are false, null or undefined are left out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  apply(element, attributes);
  append(element, children);
  return element;
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  apply(element, attributes);
  append(element, children);
  return element;
}

/** Text for screen readers only. */
export function hidden(text: string): HTMLElement {
  return h('span', { class: 'visually-hidden' }, text);
}

/** Width that a plot may use; a sensible one while it is not laid out (hidden, or before print). */
export function widthOf(element: Element, fallback = 640): number {
  const width = element.clientWidth;
  return width > 0 ? width : fallback;
}
