// Replace what has changed on a watched page, every two seconds.
const parts = (page) => [...page.querySelectorAll("header, main > section, footer")];
async function again() {
  if (document.hidden) return;
  let next;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    next = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    document.querySelector("footer").textContent = "The process that watches has ended; this is what it saw last.";
    return;
  }
  document.title = next.title;
  const [old, made] = [parts(document), parts(next)];
  if (old.length !== made.length) {
    document.querySelector("header").replaceWith(next.querySelector("header"));
    document.querySelector("main").replaceWith(next.querySelector("main"));
    return;
  }
  old.forEach((part, i) => {
    if (part.innerHTML !== made[i].innerHTML) part.innerHTML = made[i].innerHTML;
  });
}
setInterval(again, 2000);
