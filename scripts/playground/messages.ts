// Messages between the page "Try it" and the frame with the trace view, beside those of the view.

/** From the page to the frame: colors of the theme of the site, by the name of a CSS variable. */
export interface Colors {
  readonly type: "colors";
  readonly dark: boolean;
  readonly variables: Readonly<Record<string, string>>;
}

/** From the frame to the page: height of the view in pixels. */
export interface Height {
  readonly type: "height";
  readonly height: number;
}
