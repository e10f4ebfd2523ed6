document.documentElement.classList.add("js");
try { const theme = localStorage.getItem("airtcp-theme"); if (theme) document.documentElement.dataset.theme = theme; } catch {}
