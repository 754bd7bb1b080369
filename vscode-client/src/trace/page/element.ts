// Elements of the page, made in one expression.

export type Child = Node | string;

export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Readonly<Record<string, string>>,
  ...children: readonly Child[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    // The policy of the page allows styles only as properties.
    if (attribute === "style") {
      made.style.cssText = value;
    } else if (value) {
      made.setAttribute(attribute, value);
    }
  }
  made.append(...children);
  return made;
}
