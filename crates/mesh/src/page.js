// What the collector has now takes the place of what is shown; an open pair stays open, and the focus where it was.
setInterval(async () => {
  const stale = document.getElementById('stale');
  try {
    const answer = await fetch(location.pathname);
    if (!answer.ok) throw new Error(answer.statusText);
    const next = new DOMParser().parseFromString(await answer.text(), 'text/html').getElementById('mesh');
    const focused = document.activeElement && document.activeElement.getAttribute('href');
    document.getElementById('mesh').replaceWith(next);
    stale.style.display = 'none';
    mark();
    const same = focused && next.querySelector(`a[href="${CSS.escape(focused)}"]`);
    if (same) same.focus({ preventScroll: true });
  } catch {
    stale.style.display = 'block';
  }
}, 10000);
function mark() {
  for (const pair of document.querySelectorAll('.pair')) pair.classList.toggle('open', '#' + pair.id === location.hash);
}
addEventListener('hashchange', mark);
