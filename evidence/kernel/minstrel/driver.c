/*
 * Drives the kernel's Minstrel-HT by lines of text: outcomes in, its rate table and what it knows out.
 *
 *   start SEED FORMAT STREAMS WIDTH SGI MAX_RATES MAX_TRIES   a new station; FORMAT: ht or vht, WIDTH in MHz, SGI: 0 or 1
 *   columns                the table that samples go by, column by column
 *   now MS                 the time, in milliseconds, which never runs back
 *   get                    a new frame: `S` or `-` (a sample or not), then the stages CODE:TRIES:RTS
 *   table                  the same for a frame that is sent again, which is never a sample
 *   status IS_AMPDU MPDUS ACKED IS_SAMPLE CODE:TRIES ...      what became of it; answers the number of evaluations so far
 *   dump                   mean A-MPDU length, the most reliable rate, then CODE:PROBABILITY:THROUGHPUT of each rate
 *
 * A code is the kernel's own number of a rate, 16 * group + index. Every line is answered by one line.
 */
#include "rc80211_minstrel_ht.c"

unsigned long jiffies;
static u64 random_state;
static const struct rate_control_ops *ops;
static struct ieee80211_sta_rates table;
static unsigned long evaluations;

/* splitmix64 (Steele, Lea, Flood 2014): the top byte of each number. */
void get_random_bytes(void *buffer, size_t length)
{
	u8 *bytes = buffer;

	for (size_t i = 0; i < length; i++) {
		u64 z = (random_state += 0x9e3779b97f4a7c15ULL);

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		bytes[i] = (u8)((z ^ (z >> 31)) >> 56);
	}
}

int ieee80211_rate_control_register(const struct rate_control_ops *o)
{
	ops = o;
	return 0;
}

void ieee80211_rate_control_unregister(const struct rate_control_ops *o)
{
	(void)o;
}

int rate_control_set_rates(struct ieee80211_hw *hw, struct ieee80211_sta *sta, struct ieee80211_sta_rates *rates)
{
	(void)hw;
	(void)sta;
	table = *rates;
	free(rates);
	return 0;
}

static struct ieee80211_rate ofdm[8];
static struct ieee80211_supported_band band = { .bitrates = ofdm, .band = NL80211_BAND_5GHZ, .n_bitrates = 8 };
static struct wiphy wiphy = { .bands = { NULL, &band } };
static struct ieee80211_hw hw = { .wiphy = &wiphy };
static struct sta_info sta;
static struct minstrel_priv *mp;
static struct minstrel_ht_sta *mi;

static void fail(const char *line)
{
	fprintf(stderr, "not understood: %s\n", line);
	exit(2);
}

/* The kernel's number of a rate as drivers see it. */
static int code_of(int idx, unsigned int flags)
{
	int wide = !!(flags & IEEE80211_TX_RC_40_MHZ_WIDTH) + 2 * !!(flags & IEEE80211_TX_RC_80_MHZ_WIDTH);
	int sgi = !!(flags & IEEE80211_TX_RC_SHORT_GI);

	if (flags & IEEE80211_TX_RC_VHT_MCS)
		return MI_RATE(VHT_GROUP_IDX((idx >> 4) + 1, sgi, wide), idx & 0xf);
	if (flags & IEEE80211_TX_RC_MCS)
		return MI_RATE(GROUP_IDX(idx / 8 + 1, sgi, wide), idx % 8);
	return MI_RATE(MINSTREL_OFDM_GROUP, idx);
}

static void rate_of(int code, int count, struct ieee80211_tx_rate *rate)
{
	const struct mcs_group *group = &minstrel_mcs_groups[MI_RATE_GROUP(code)];
	int idx = MI_RATE_IDX(code);

	rate->flags = group->flags;
	rate->count = count;
	rate->idx = group->flags & IEEE80211_TX_RC_VHT_MCS ? ((group->streams - 1) << 4) | idx :
		    group->flags & IEEE80211_TX_RC_MCS	   ? (group->streams - 1) * 8 + idx :
							     idx;
}

static void start(const char *line)
{
	static const u16 bitrates[8] = { 60, 90, 120, 180, 240, 360, 480, 540 };
	unsigned long long seed;
	char format[4];
	int streams, width, sgi, max_rates, max_tries;

	if (sscanf(line, "start %llu %3s %d %d %d %d %d", &seed, format, &streams, &width, &sgi, &max_rates, &max_tries) != 7)
		fail(line);
	for (int i = 0; i < 8; i++)
		ofdm[i].bitrate = bitrates[i];
	random_state = seed;
	hw.max_rates = max_rates;
	hw.max_rate_tries = max_tries;
	memset(&sta, 0, sizeof(sta));
	sta.sta.deflink.supp_rates[NL80211_BAND_5GHZ] = 0xff;
	sta.sta.deflink.bandwidth = width == 80 ? IEEE80211_STA_RX_BW_80 : width == 40 ? IEEE80211_STA_RX_BW_40 : IEEE80211_STA_RX_BW_20;
	sta.sta.deflink.ht_cap.ht_supported = true;
	sta.sta.deflink.ht_cap.cap = sgi ? IEEE80211_HT_CAP_SGI_20 | IEEE80211_HT_CAP_SGI_40 : 0;
	memset(sta.sta.deflink.ht_cap.mcs.rx_mask, 0xff, streams);
	if (!strcmp(format, "vht")) {
		struct ieee80211_sta_vht_cap *vht = &sta.sta.deflink.vht_cap;
		u16 map = 0xffff;

		for (int i = 0; i < streams; i++)
			map = (map & ~(3 << (2 * i))) | IEEE80211_VHT_MCS_SUPPORT_0_9 << (2 * i);
		vht->vht_supported = true;
		vht->cap = sgi ? IEEE80211_VHT_CAP_SHORT_GI_80 : 0;
		vht->vht_mcs.rx_mcs_map = vht->vht_mcs.tx_mcs_map = map;
	}
	jiffies = 0;
	evaluations = 0;
	rc80211_minstrel_init();
	mp = ops->alloc(&hw);
#ifdef CONFIG_MAC80211_DEBUGFS
	mp->fixed_rate_idx = (u32)-1;
#endif
	mi = ops->alloc_sta(mp, &sta.sta, 0);
	ops->rate_init(mp, &band, NULL, &sta.sta, mi);
	printf("ok\n");
}

static void print_columns(void)
{
	for (int c = 0; c < SAMPLE_COLUMNS; c++)
		for (int i = 0; i < MCS_GROUP_RATES; i++)
			printf("%s%d", c + i ? " " : "", sample_table[c][i]);
	printf("\n");
}

/* As a driver sees the series: a sample stands in the place of the table's first rate. */
static void get(bool is_new)
{
	struct sk_buff skb;
	struct ieee80211_tx_rate_control txrc = { .skb = &skb };
	bool is_sample;

	memset(&skb, 0, sizeof(skb));
	for (int i = 0; i < IEEE80211_TX_MAX_RATES; i++)
		skb.info.status.rates[i].idx = -1;
	if (is_new)
		ops->get_rate(mp, &sta.sta, mi, &txrc);
	is_sample = skb.info.flags & IEEE80211_TX_CTL_RATE_CTRL_PROBE;
	printf(is_sample ? "S" : "-");
	for (int i = 0; i < min(hw.max_rates, IEEE80211_TX_RATE_TABLE_SIZE); i++) {
		struct ieee80211_tx_rate *own = &skb.info.status.rates[i];

		if (own->idx >= 0 && own->count) {
			printf(" %d:%d:%d", code_of(own->idx, own->flags), own->count, !!(own->flags & IEEE80211_TX_RC_USE_RTS_CTS));
			continue;
		}
		if (table.rate[i].idx < 0 || !table.rate[i].count)
			break;
		printf(" %d:%d:%d", code_of(table.rate[i].idx, table.rate[i].flags), table.rate[i].count,
		       !!(table.rate[i].flags & IEEE80211_TX_RC_USE_RTS_CTS));
	}
	printf("\n");
}

static void status(const char *line)
{
	struct ieee80211_tx_info info = { 0 };
	struct ieee80211_tx_status st = { .info = &info };
	int is_ampdu, mpdus, acked, is_sample, at, code, count;

	if (sscanf(line, "status %d %d %d %d%n", &is_ampdu, &mpdus, &acked, &is_sample, &at) != 4)
		fail(line);
	for (int i = 0; i < IEEE80211_TX_MAX_RATES; i++) {
		int length;

		info.status.rates[i].idx = -1;
		if (sscanf(line + at, " %d:%d%n", &code, &count, &length) == 2) {
			rate_of(code, count, &info.status.rates[i]);
			at += length;
		}
	}
	info.flags = is_ampdu ? IEEE80211_TX_CTL_AMPDU | IEEE80211_TX_STAT_AMPDU : 0;
	info.flags |= acked ? IEEE80211_TX_STAT_ACK : 0;
	info.flags |= is_sample ? IEEE80211_TX_CTL_RATE_CTRL_PROBE : 0;
	info.status.ampdu_len = mpdus;
	info.status.ampdu_ack_len = acked;
	/* An evaluation notes its time; one at the time of the last would need an interval of nothing. */
	unsigned long before = mi->last_stats_update;
	ops->tx_status_ext(mp, &band, mi, &st);
	evaluations += mi->last_stats_update != before;
	printf("%lu\n", evaluations);
}

static void dump(void)
{
	printf("%u %u", mi->avg_ampdu_len, mi->max_prob_rate);
	for (int group = 0; group < (int)ARRAY_SIZE(minstrel_mcs_groups); group++)
		for (int i = 0; i < MCS_GROUP_RATES; i++) {
			struct minstrel_rate_stats *mrs = &mi->groups[group].rates[i];

			if (mi->supported[group] & BIT(i))
				printf(" %lu:%u:%d", MI_RATE(group, i), mrs->prob_avg,
				       minstrel_ht_get_tp_avg(mi, group, i, mrs->prob_avg));
		}
	printf("\n");
}

int main(void)
{
	char line[256];

	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "start ", 6))
			start(line);
		else if (!strncmp(line, "now ", 4))
			jiffies = strtoul(line + 4, NULL, 10) * HZ / 1000, printf("ok\n");
		else if (!strcmp(line, "get\n"))
			get(true);
		else if (!strcmp(line, "table\n"))
			get(false);
		else if (!strncmp(line, "status ", 7))
			status(line);
		else if (!strcmp(line, "dump\n"))
			dump();
		else if (!strcmp(line, "columns\n"))
			print_columns();
		else
			fail(line);
		fflush(stdout);
	}
	return 0;
}
