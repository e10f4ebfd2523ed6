/*
 * What rc80211_minstrel_ht.c of a Linux kernel needs to be compiled and run by itself, outside the kernel.
 *
 * Only names, and only those that the file uses; written for this purpose. Time, randomness and the station's abilities come
 * from driver.c. Locks and read-copy-update have nothing to guard: there is one thread.
 */
#ifndef SHIMS_H
#define SHIMS_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef u16 __le16;
typedef unsigned int gfp_t;

#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX

/* Ticks per second; a tick of 1 ms makes times exact. */
#ifndef HZ
#define HZ 1000
#endif
extern unsigned long jiffies;
#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_is_after_jiffies(a) time_after(a, jiffies)

void get_random_bytes(void *buffer, size_t length);

#define BIT(n) (1UL << (n))
#define GENMASK(high, low) (((~0UL) << (low)) & (~0UL >> (sizeof(long) * CHAR_BIT - 1 - (high))))
#define FIELD_GET(mask, word) (((word) & (mask)) >> __builtin_ctzl(mask))
#define FIELD_PREP(mask, field) (((unsigned long)(field) << __builtin_ctzl(mask)) & (mask))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))
#define max_t(type, a, b) ((type)(a) > (type)(b) ? (type)(a) : (type)(b))
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))
#define likely(x) (x)
#define unlikely(x) (x)
#define WARN_ON(x) (!!(x))
#define BUILD_BUG_ON(x) _Static_assert(!(x), "BUILD_BUG_ON")
#define le16_to_cpu(x) (x)
#define cpu_to_le16(x) ((u16)(x))
#define EXPORT_SYMBOL(x)
#define module_param(name, type, mode)
#define MODULE_PARM_DESC(name, text)
#define __init
#define __read_mostly

#define GFP_ATOMIC 0
#define kzalloc(size, flags) calloc(1, size)
#define kfree(pointer) free(pointer)

enum nl80211_band { NL80211_BAND_2GHZ, NL80211_BAND_5GHZ, NUM_NL80211_BANDS };

/* Flags of a rate and of a frame: any distinct bits. Those of a frame's status must fit what the file does with them. */
enum {
	IEEE80211_TX_RC_USE_RTS_CTS = 1 << 0,
	IEEE80211_TX_RC_USE_SHORT_PREAMBLE = 1 << 2,
	IEEE80211_TX_RC_MCS = 1 << 3,
	IEEE80211_TX_RC_40_MHZ_WIDTH = 1 << 5,
	IEEE80211_TX_RC_SHORT_GI = 1 << 7,
	IEEE80211_TX_RC_VHT_MCS = 1 << 8,
	IEEE80211_TX_RC_80_MHZ_WIDTH = 1 << 9,
	IEEE80211_TX_RC_160_MHZ_WIDTH = 1 << 10,
};
enum {
	IEEE80211_TX_CTL_NO_ACK = 1 << 0,
	IEEE80211_TX_CTL_AMPDU = 1 << 1,
	IEEE80211_TX_STAT_AMPDU = 1 << 2,
	IEEE80211_TX_STAT_ACK = 1 << 3,
	IEEE80211_TX_CTL_RATE_CTRL_PROBE = 1 << 4,
	IEEE80211_TX_CTL_LDPC = 1 << 5,
};
#define IEEE80211_TX_CTL_STBC_SHIFT 23
#define IEEE80211_TX_CTRL_PORT_CTRL_PROTO 1
#define IEEE80211_TX_MAX_RATES 4
#define IEEE80211_TX_RATE_TABLE_SIZE 4

enum {
	IEEE80211_HT_CAP_LDPC_CODING = 1 << 0,
	IEEE80211_HT_CAP_SGI_20 = 1 << 5,
	IEEE80211_HT_CAP_SGI_40 = 1 << 6,
	IEEE80211_HT_CAP_RX_STBC = 3 << 8,
	IEEE80211_VHT_CAP_RXLDPC = 1 << 4,
	IEEE80211_VHT_CAP_SHORT_GI_80 = 1 << 5,
	IEEE80211_VHT_CAP_RXSTBC_MASK = 7 << 8,
};
#define IEEE80211_HT_CAP_RX_STBC_SHIFT 8
#define IEEE80211_VHT_CAP_RXSTBC_SHIFT 8
enum { IEEE80211_VHT_MCS_SUPPORT_0_7, IEEE80211_VHT_MCS_SUPPORT_0_8, IEEE80211_VHT_MCS_SUPPORT_0_9 };
enum { IEEE80211_STA_RX_BW_20, IEEE80211_STA_RX_BW_40, IEEE80211_STA_RX_BW_80 };
enum { IEEE80211_SMPS_OFF, IEEE80211_SMPS_STATIC, IEEE80211_SMPS_DYNAMIC };
enum { IEEE80211_RATE_SHORT_PREAMBLE = 1 << 0, IEEE80211_RATE_ERP_G = 1 << 4 };
enum { RATE_INFO_FLAGS_MCS = 1, RATE_INFO_FLAGS_VHT_MCS = 2, RATE_INFO_FLAGS_SHORT_GI = 4 };
enum { RATE_INFO_BW_40 = 8, RATE_INFO_BW_80 = 16 };
#define IEEE80211_MAX_MPDU_LEN_HT_BA 4095
#define RATE_CTRL_CAPA_AMPDU_TRIGGER 1

struct ieee80211_tx_rate {
	s8 idx;
	u16 count : 5, flags : 11;
};
struct rate_info {
	u16 flags, legacy;
	u8 mcs, nss, bw;
};
struct ieee80211_rate_status {
	struct rate_info rate_idx;
	u8 try_count;
};
struct ieee80211_sta_rates {
	struct {
		s8 idx;
		u8 count, count_cts, count_rts;
		u16 flags;
	} rate[IEEE80211_TX_RATE_TABLE_SIZE];
};
struct ieee80211_tx_info {
	u32 flags;
	struct {
		u32 flags;
	} control;
	struct {
		struct ieee80211_tx_rate rates[IEEE80211_TX_MAX_RATES];
		u8 ampdu_ack_len, ampdu_len;
	} status;
};
struct sk_buff {
	struct ieee80211_tx_info info;
};
#define IEEE80211_SKB_CB(skb) (&(skb)->info)
struct ieee80211_tx_status {
	struct ieee80211_tx_info *info;
	struct ieee80211_rate_status *rates;
	int n_rates;
};
struct ieee80211_tx_rate_control {
	struct sk_buff *skb;
	bool short_preamble;
};
struct ieee80211_rate {
	u32 flags;
	u16 bitrate;
};
struct ieee80211_supported_band {
	struct ieee80211_rate *bitrates;
	enum nl80211_band band;
	int n_bitrates;
};
struct cfg80211_chan_def {
	int width;
};
struct wiphy {
	struct ieee80211_supported_band *bands[NUM_NL80211_BANDS];
};
struct ieee80211_hw {
	struct {
		struct cfg80211_chan_def chandef;
	} conf;
	struct wiphy *wiphy;
	u8 max_rates, max_rate_tries;
};
/* Hardware flags: this hardware reports lengths of A-MPDUs and has no CCK rates towards HT stations. */
#define TX_STATUS_NO_AMPDU_LEN 0
#define SUPPORTS_HT_CCK_RATES 0
#define ieee80211_hw_check(hw, flag) ((void)(hw), flag)
#define ieee80211_chandef_rate_flags(chandef) ((void)(chandef), 0u)

struct ieee80211_mcs_info {
	u8 rx_mask[10];
};
struct ieee80211_sta_ht_cap {
	u16 cap;
	bool ht_supported;
	struct ieee80211_mcs_info mcs;
};
struct ieee80211_sta_vht_cap {
	bool vht_supported;
	u32 cap;
	struct {
		__le16 rx_mcs_map, tx_mcs_map;
	} vht_mcs;
};
struct ieee80211_sta {
	struct {
		struct ieee80211_sta_ht_cap ht_cap;
		struct ieee80211_sta_vht_cap vht_cap;
		int bandwidth, smps_mode;
		u32 supp_rates[NUM_NL80211_BANDS];
		struct {
			u16 max_rc_amsdu_len;
		} agg;
	} deflink;
};
struct sta_info {
	struct ieee80211_sta sta;
	struct {
		struct {
			struct {
				bool use_short_preamble;
			} bss_conf;
		} vif;
	} *sdata;
};
#define WLAN_STA_SHORT_PREAMBLE 0
#define test_sta_flag(sta, flag) ((void)(sta), false)
#define ieee80211_sta_recalc_aggregates(sta) ((void)(sta))
#define rate_supported(sta, band, index) (((sta)->deflink.supp_rates[band] >> (index)) & 1)
#define rate_lowest_index(sband, sta) ((void)(sta), 0)
#define ieee80211_rate_get_vht_mcs(rate) ((rate)->idx & 0xf)
#define ieee80211_rate_get_vht_nss(rate) (((rate)->idx >> 4) + 1)
#define ieee80211_rate_set_vht(rate, mcs, nss) ((rate)->idx = (s8)((((nss) - 1) << 4) | (mcs)))

int ieee80211_frame_duration(enum nl80211_band band, size_t len, int rate, int erp, int short_preamble);
int rate_control_set_rates(struct ieee80211_hw *hw, struct ieee80211_sta *sta, struct ieee80211_sta_rates *rates);

struct dentry;
struct rate_control_ops {
	unsigned long capa;
	const char *name;
	void *(*alloc)(struct ieee80211_hw *hw);
	void (*free)(void *priv);
	void *(*alloc_sta)(void *priv, struct ieee80211_sta *sta, gfp_t gfp);
	void (*rate_init)(void *priv, struct ieee80211_supported_band *sband, struct cfg80211_chan_def *chandef,
			  struct ieee80211_sta *sta, void *priv_sta);
	void (*rate_update)(void *priv, struct ieee80211_supported_band *sband, struct cfg80211_chan_def *chandef,
			    struct ieee80211_sta *sta, void *priv_sta, u32 changed);
	void (*free_sta)(void *priv, struct ieee80211_sta *sta, void *priv_sta);
	void (*tx_status_ext)(void *priv, struct ieee80211_supported_band *sband, void *priv_sta,
			      struct ieee80211_tx_status *st);
	void (*get_rate)(void *priv, struct ieee80211_sta *sta, void *priv_sta, struct ieee80211_tx_rate_control *txrc);
	u32 (*get_expected_throughput)(void *priv_sta);
};
int ieee80211_rate_control_register(const struct rate_control_ops *ops);
void ieee80211_rate_control_unregister(const struct rate_control_ops *ops);

#endif
