// The canvas of ticks: a column each. Above the line stand its prefill rows as cells, below it hang its decode rows,
// and at the bottom is how long it took. The newest is at the right; a pause between two ticks is a thin line.
//
// Prompts bring hundreds of rows, answers one each: the two lanes have scales of their own, which they say.
const STEP = 9,
	GAP = 2,
	TIME_HEIGHT = 36,
	MARGIN = 4,
	LABEL = 17,
	PAUSE_S = 0.4;
const CELL = 7; // px, at most

// The cells of a lane: as few rows per cell as fit, one where it can be.
function lane(rows, height) {
	const most = Math.max(0, ...rows),
		cells = Math.floor(height / 4.5);
	let per = 1;
	while (most / per > cells) per *= 2;
	return {most, per, cell: Math.min(CELL, height / Math.max(1, Math.ceil(most / per)))};
}

export class Ticks {
	empty = ''; // what stands there while there are none
	#canvas;
	#ticks = [];
	#picked = null; // the number of a tick
	#readout;

	constructor(canvas, readout) {
		this.#canvas = canvas;
		this.#readout = readout;
		new ResizeObserver(() => this.draw()).observe(canvas);
		canvas.addEventListener('pointermove', (e) => this.#point(e.offsetX));
		canvas.addEventListener('pointerdown', (e) => this.#point(e.offsetX));
		canvas.addEventListener('pointerleave', () => this.#pick(null));
		canvas.addEventListener('blur', () => this.#pick(null));
		canvas.addEventListener('keydown', (e) => {
			const by = {ArrowLeft: -1, ArrowRight: 1}[e.key];
			if (!by) return;
			e.preventDefault();
			const shown = this.#shown();
			const at = shown.findIndex((t) => t.n === this.#picked);
			this.#pick(
				shown[at < 0 ? shown.length - 1 : Math.max(0, Math.min(shown.length - 1, at + by))] ??
					null,
			);
		});
	}

	add(ticks) {
		this.#ticks.push(...ticks);
		if (this.#ticks.length > 1200) this.#ticks.splice(0, this.#ticks.length - 800);
	}

	clear() {
		this.#ticks = [];
	}

	#shown() {
		return this.#ticks.slice(-Math.max(1, Math.floor((this.#canvas.clientWidth - 2 * MARGIN) / STEP)));
	}

	#point(x) {
		const shown = this.#shown();
		const from = this.#canvas.clientWidth - MARGIN - shown.length * STEP;
		this.#pick(shown[Math.floor((x - from) / STEP)] ?? null);
	}

	#pick(tick) {
		this.#picked = tick?.n ?? null;
		if (tick) this.#readout(tick);
		this.draw();
	}

	draw() {
		const canvas = this.#canvas,
			ratio = devicePixelRatio || 1;
		const width = canvas.clientWidth,
			height = canvas.clientHeight;
		if (width === 0 || height === 0) return;
		if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
			canvas.width = Math.round(width * ratio);
			canvas.height = Math.round(height * ratio);
		}
		const g = canvas.getContext('2d'),
			style = getComputedStyle(canvas);
		const colour = (name) => style.getPropertyValue(name).trim();
		const decode = colour('--paint-decode'),
			prefill = colour('--paint-prefill'),
			time = colour('--paint-time');
		const line = colour('--paint-line'),
			ink = colour('--paint-ink');
		g.setTransform(ratio, 0, 0, ratio, 0, 0);
		g.clearRect(0, 0, width, height);
		const shown = this.#shown();
		g.font = '11px system-ui, sans-serif';
		g.textBaseline = 'top';
		g.lineWidth = 1;
		if (shown.length === 0) {
			g.fillStyle = ink;
			g.fillText(this.empty, MARGIN, 3);
			return;
		}
		const room = height - TIME_HEIGHT - 3 * LABEL - MARGIN;
		const zero = LABEL + Math.round(room * 0.55); // the line between the lanes
		const up = lane(
				shown.map((t) => t.prefill),
				zero - LABEL,
			),
			down = lane(
				shown.map((t) => t.decode),
				room - (zero - LABEL),
			);
		const slowest = Math.max(1e-9, ...shown.map((t) => t.total_ms));
		shown.forEach((t, i) => {
			const x = width - MARGIN - (shown.length - i) * STEP;
			g.fillStyle = line;
			if (i > 0 && t.at_s - shown[i - 1].at_s > PAUSE_S)
				g.fillRect(x - GAP / 2 - 0.5, LABEL, 1, height - LABEL - MARGIN);
			if (t.n === this.#picked) g.fillRect(x - GAP / 2, LABEL, STEP, height - LABEL);
			for (const [rows, {per, cell}, paint, side] of [
				[t.prefill, up, prefill, -1],
				[t.decode, down, decode, 1],
			]) {
				g.fillStyle = paint;
				for (let k = 0; k * per < rows; k++) {
					// The last cell may be a part of one.
					const h = cell * Math.min(1, (rows - k * per) / per);
					const y = side < 0 ? zero - 1 - k * cell - h : zero + 2 + k * cell;
					g.fillRect(x, y, STEP - GAP, Math.max(1, h - 1));
				}
			}
			g.fillStyle = time;
			const h = Math.max(1, (t.total_ms / slowest) * TIME_HEIGHT);
			g.fillRect(x, height - MARGIN - h, STEP - GAP, h);
		});
		g.fillStyle = line;
		g.fillRect(MARGIN, zero, width - 2 * MARGIN, 1);
		const say = (what, {most, per}) =>
			`${what}: at most ${most} a tick` + (per > 1 ? `, a cell is ${per} rows` : ', a cell each');
		const label = (text, y) => {
			g.fillStyle = ink;
			g.fillText(text, MARGIN, y);
		};
		label(say('prefill', up), 2);
		label(say('decode', down), height - TIME_HEIGHT - MARGIN - 2 * LABEL + 1);
		label(`time: at most ${slowest.toFixed(1)} ms`, height - TIME_HEIGHT - MARGIN - LABEL + 1);
	}
}

// A line over the last values.
export function sparkline(canvas, values) {
	const ratio = devicePixelRatio || 1,
		width = canvas.clientWidth,
		height = canvas.clientHeight;
	if (width === 0) return;
	canvas.width = Math.round(width * ratio);
	canvas.height = Math.round(height * ratio);
	const g = canvas.getContext('2d'),
		style = getComputedStyle(canvas);
	const most = Math.max(1, ...values);
	g.setTransform(ratio, 0, 0, ratio, 0, 0);
	g.beginPath();
	values.forEach((v, i) =>
		g.lineTo(
			values.length < 2 ? 0 : (i / (values.length - 1)) * width,
			height - 2 - (v / most) * (height - 4),
		),
	);
	g.strokeStyle = style.getPropertyValue('--paint-decode').trim();
	g.lineWidth = 1.5;
	g.lineJoin = 'round';
	g.stroke();
	g.lineTo(width, height);
	g.lineTo(0, height);
	g.globalAlpha = 0.14;
	g.fillStyle = g.strokeStyle;
	g.fill();
}
