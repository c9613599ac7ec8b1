// As it is typed, a query finds too much: each of its words also finds longer words, so that "offset of a time" finds
// "application", and a hyphen before a word leaves out the pages that have it.
{
  const EVERYWHERE = new Set(`
    a about all an and are as at be by can do does for from has have how i if in into is it its me my no not of on or so
    that the their them then there this to was what when where which who why will with
  `.trim().split(/\s+/))
  // pages.py gives such a word to each page that defines an option, a code or a tool with this name.
  const named = (typed) => {
    const word = typed.replace(/^-+/, "")
    return /[-_]/.test(word) ? word.replace(/[-_]/g, "") : typed.startsWith("--") ? word : ""
  }
  const query = (text) => {
    const typed = text.toLowerCase().match(/-{0,2}[\p{L}\p{N}](?:[\p{L}\p{N}_.-]*[\p{L}\p{N}])?/gu) ?? []
    const words = typed.flatMap((word) => word.split(/[-_]+|\.(?!\d)/)).filter(Boolean)
    const telling = words.filter((word) => !EVERYWHERE.has(word))
    const names = typed.map(named).filter(Boolean)
    const exact = [...telling.map((word) => `${word}^2`), ...names.map((name) => `0${name}^20`)]
    return [...(telling.length ? telling : words), ...exact].join(" ")
  }
  const send = Worker.prototype.postMessage
  Worker.prototype.postMessage = function (message, ...rest) {
    const isQuery = typeof message?.data === "string" && !message.data.includes('"')
    return send.call(this, isQuery ? { ...message, data: query(message.data) } : message, ...rest)
  }
}
