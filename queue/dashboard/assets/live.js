"use strict";
// Keeps the sections marked data-live as the server sends them. The page is whole without it.
(() => {
	const sign = document.getElementById("live");
	if (!window.EventSource || !sign || !document.querySelector("[data-live]")) return;

	let stream = null;
	let pressed = false; // a button must not vanish between press and release
	document.addEventListener("pointerdown", () => { pressed = true; });
	for (const end of ["pointerup", "pointercancel"]) {
		document.addEventListener(end, () => setTimeout(() => { pressed = false; }, 300));
	}
	const selecting = (section) => {
		const s = document.getSelection();
		return s && !s.isCollapsed && section.contains(s.anchorNode);
	};
	const say = (words, state) => {
		if (sign.textContent !== words) sign.textContent = words;
		sign.dataset.state = state;
	};

	// same finds in a new section what had the focus in the old one.
	const same = (section, old) => {
		if (old.id) return document.getElementById(old.id);
		const href = old.getAttribute("href");
		return href && [...section.querySelectorAll("a")].find((a) => a.getAttribute("href") === href);
	};

	const show = (html) => {
		if (pressed) return;
		const fresh = new DOMParser().parseFromString(html, "text/html");
		for (const section of document.querySelectorAll("[data-live]")) {
			const next = fresh.getElementById(section.id);
			if (!next || selecting(section)) continue;
			for (const box of section.querySelectorAll("input[type=checkbox][id]")) {
				if (box.checked) next.querySelector("#" + CSS.escape(box.id))?.setAttribute("checked", "");
			}
			if (next.isEqualNode(section)) continue;
			const focus = section.contains(document.activeElement) ? document.activeElement : null;
			const scroll = section.querySelector("pre")?.scrollTop;
			section.replaceChildren(...next.childNodes);
			if (scroll) {
				const pre = section.querySelector("pre");
				if (pre) pre.scrollTop = scroll;
			}
			if (focus) same(section, focus)?.focus({ preventScroll: true });
		}
	};

	const open = () => {
		if (stream) return;
		stream = new EventSource(location.pathname + location.search);
		stream.addEventListener("page", (e) => { show(JSON.parse(e.data)); say("live", "on"); });
		stream.addEventListener("away", () => say("the store does not answer", "off"));
		stream.onerror = () => say(stream && stream.readyState === EventSource.CLOSED ? "not live: reload the page" : "reconnecting", "off");
	};
	const close = () => {
		if (stream) stream.close();
		stream = null;
	};
	document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
	window.addEventListener("pagehide", close);
	window.addEventListener("pageshow", () => { if (!document.hidden) open(); });
	open();
})();
