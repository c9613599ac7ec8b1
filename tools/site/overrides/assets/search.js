// A hyphen before a word would leave out the pages that have it: options begin with two.
{
  const query = document.querySelector("[data-md-component=search-query]")
  const plain = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")
  if (query) Object.defineProperty(query, "value", {
    get() { return plain.get.call(this).replace(/(^|\s)-+/g, "$1") },
    set(text) { plain.set.call(this, text) },
  })
}
