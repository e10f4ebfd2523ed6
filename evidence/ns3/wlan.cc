// One 802.11 BSS in ns-3: n stations, an AP, a server wired to the AP. Prints one JSON object. See --help.
//
// Written for ns-3.44. Everything that matters is set here, not left to a default; `settings` in the output lists it.
// Traffic starts when every station is associated, in a second call of Simulator::Run, whose wall time is what counts.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-apps-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/propagation-module.h"
#include "ns3/traffic-control-module.h"
#include "ns3/wifi-module.h"

#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

constexpr uint32_t IP_BYTES = 1500;
constexpr uint32_t UDP_PAYLOAD = IP_BYTES - 20 - 8;
// IPv4 20, TCP 20, timestamps 12.
constexpr uint32_t TCP_PAYLOAD = IP_BYTES - 20 - 20 - 12;
// What an MSDU (with its LLC header) gains to an MPDU: QoS header 26, FCS 4.
constexpr uint32_t MAC_BYTES = 30;
constexpr uint32_t MPDU_BYTES = IP_BYTES + 8 + MAC_BYTES;
// Below it a frame body is a control or management frame: the shortest IP packet that occurs has 48 bytes with LLC.
constexpr uint32_t SHORTEST_MSDU = 48;

struct Options
{
    std::string traffic = "tcp-up";
    uint32_t stations = 1;
    double duration = 10;
    double warmup = 0;
    double spread = 0.1;
    uint32_t run = 1;
    bool trace = true;

    std::string standard = "n";
    std::string mode = "HtMcs7";
    std::string control = "OfdmRate24Mbps";
    std::string manager = "constant";
    uint32_t width = 20;
    uint32_t ampdu = 65535;
    uint32_t buffer = 64;
    uint32_t rts = 4692480;
    uint32_t retries = 7;
    bool baRetries = false;
    double beacon = 0.1024;
    bool hidden = false;

    double snr = 60;
    std::string errors = "table";
    double errorUp = 0;
    double errorDown = 0;

    uint32_t queue = 1000;
    uint32_t apQueue = 1000;
    double lifetime = 1000;
    std::string qdisc = "none";
    uint32_t qdiscPackets = 1000;

    std::string cc = "TcpCubic";
    uint32_t initialWindow = 10;
    bool sack = true;
    uint32_t delack = 2;
    double delackMs = 40;
    double minRtoMs = 1000;
    uint32_t buffers = 4 << 20;
    double ping = 0;
    uint32_t backlog = 200;
    uint32_t downs = 0;
    double wiredMs = 1;
};

Options o;

WifiPhyBand
Band()
{
    return o.standard == "b" || o.standard == "g" ? WIFI_PHY_BAND_2_4GHZ : WIFI_PHY_BAND_5GHZ;
}

/// Mean over time of a value that changes by steps.
struct TimeMean
{
    double value = 0;
    double integral = 0;
    double largest = 0;
    Time since;
    Time last;
    bool isSet = false;

    void Set(double v)
    {
        const Time now = Simulator::Now();
        if (isSet)
        {
            integral += value * (now - last).GetSeconds();
        }
        else
        {
            since = now;
        }
        isSet = true;
        last = now;
        value = v;
        largest = std::max(largest, v);
    }

    void Restart()
    {
        integral = 0;
        largest = value;
        since = last = Simulator::Now();
    }

    double Mean() const
    {
        const Time now = Simulator::Now();
        const double span = (now - since).GetSeconds();
        return span > 0 ? (integral + value * (now - last).GetSeconds()) / span : value;
    }
};

struct FrameCount
{
    uint64_t ppdus = 0;
    uint64_t mpdus = 0;
    uint64_t bytes = 0;
    double airtime = 0;
};

struct Flow
{
    uint32_t station;
    bool isUp;
    Ptr<PacketSink> sink;
    Ptr<BulkSendApplication> source;
    uint64_t bytesBefore = 0;
    uint64_t retransmissions = 0;
    TimeMean rtt;
    TimeMean cwnd;
};

struct Station
{
    TimeMean queue;
    uint64_t attempts = 0; // data PPDUs
    uint64_t mpdus = 0;    // data MPDUs in them
    uint64_t acked = 0;
    uint64_t nacked = 0;
    uint64_t timeouts = 0; // data PPDUs without answer
    uint64_t refused = 0;  // packets that came while the device's queue was stopped
    std::map<int, uint64_t> drops;
    double rateSum = 0; // bit/s, over data PPDUs
    std::vector<double> pings;
    bool isAssociated = false;
};

std::vector<Flow> flows;
std::vector<Station> stations; // the AP comes last
std::map<std::string, FrameCount> frames;
bool isCounting = false;

/// Corrupts MSDUs with a probability that follows from one for an MPDU of a 1500-byte packet and the length; answers never.
class LengthErrorModel : public ErrorModel
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("LengthErrorModel").SetParent<ErrorModel>().AddConstructor<LengthErrorModel>();
        return tid;
    }

    void SetRate(double rate)
    {
        m_perByte = std::log1p(-rate) / MPDU_BYTES;
    }

  private:
    bool DoCorrupt(Ptr<Packet> p) override
    {
        if (p->GetSize() < SHORTEST_MSDU || !isCounting)
        {
            return false;
        }
        return m_random->GetValue() < -std::expm1(m_perByte * (p->GetSize() + MAC_BYTES));
    }

    void DoReset() override
    {
    }

    double m_perByte = 0;
    Ptr<UniformRandomVariable> m_random = CreateObject<UniformRandomVariable>();
};

NS_OBJECT_ENSURE_REGISTERED(LengthErrorModel);

/// A UDP sender that keeps `backlog` packets in its station's queue: one more for each that leaves it.
class SaturatedSource : public Application
{
  public:
    void Setup(Ptr<WifiNetDevice> device, Address peer)
    {
        m_device = device;
        m_peer = peer;
    }

    void Refill()
    {
        if (m_socket)
        {
            Simulator::ScheduleNow(&SaturatedSource::Send, this);
        }
    }

  private:
    void StartApplication() override
    {
        m_socket = Socket::CreateSocket(GetNode(), UdpSocketFactory::GetTypeId());
        m_socket->Bind();
        m_socket->Connect(m_peer);
        auto mac = m_device->GetMac();
        mac->TraceConnectWithoutContext("AckedMpdu", MakeCallback(&SaturatedSource::Acked, this));
        mac->TraceConnectWithoutContext("DroppedMpdu", MakeCallback(&SaturatedSource::Dropped, this));
        for (uint32_t i = 0; i < o.backlog; ++i)
        {
            Send();
        }
    }

    void Acked(Ptr<const WifiMpdu> mpdu)
    {
        if (mpdu->GetHeader().IsData())
        {
            Refill();
        }
    }

    void Dropped(WifiMacDropReason, Ptr<const WifiMpdu> mpdu)
    {
        if (mpdu->GetHeader().IsData())
        {
            Refill();
        }
    }

    void Send()
    {
        m_socket->Send(Create<Packet>(UDP_PAYLOAD));
    }

    Ptr<WifiNetDevice> m_device;
    Address m_peer;
    Ptr<Socket> m_socket;
};

void
OnQueue(uint32_t i, uint32_t, uint32_t now)
{
    stations[i].queue.Set(now);
}

void
OnTransmit(uint32_t i, WifiConstPsduMap psdus, WifiTxVector tx, double)
{
    if (!isCounting)
    {
        return;
    }
    const auto& psdu = psdus.begin()->second;
    const auto& header = psdu->GetHeader(0);
    const bool isAp = i + 1 == stations.size();
    std::string key = isAp ? "ap " : "sta ";
    key += header.GetTypeString();
    key += " ";
    key += tx.GetMode().GetUniqueName();
    auto& count = frames[key];
    count.ppdus++;
    count.mpdus += psdu->GetNMpdus();
    count.bytes += psdu->GetSize();
    count.airtime += WifiPhy::CalculateTxDuration(psdu->GetSize(), tx, Band()).GetSeconds();
    if (header.IsData() && header.HasData())
    {
        auto& s = stations[i];
        s.attempts++;
        s.mpdus += psdu->GetNMpdus();
        s.rateSum += tx.GetMode().GetDataRate(tx);
    }
}

void
OnAcked(uint32_t i, Ptr<const WifiMpdu> mpdu)
{
    stations[i].acked += isCounting && mpdu->GetHeader().IsData();
}

void
OnNacked(uint32_t i, Ptr<const WifiMpdu> mpdu)
{
    stations[i].nacked += isCounting && mpdu->GetHeader().IsData();
}

void
OnDropped(uint32_t i, WifiMacDropReason reason, Ptr<const WifiMpdu>)
{
    if (isCounting)
    {
        stations[i].drops[reason]++;
    }
}

void
OnRefused(uint32_t i, Ptr<const Packet>)
{
    stations[i].refused += isCounting;
}

void
OnMpduTimeout(uint32_t i, uint8_t, Ptr<const WifiMpdu> mpdu, const WifiTxVector&)
{
    stations[i].timeouts += isCounting && mpdu->GetHeader().IsData();
}

void
OnPsduTimeout(uint32_t i, uint8_t, Ptr<const WifiPsdu> psdu, const WifiTxVector&)
{
    stations[i].timeouts += isCounting && psdu->GetHeader(0).IsData();
}

void
OnRtt(uint32_t i, Time, Time now)
{
    flows[i].rtt.Set(now.GetSeconds());
}

void
OnCwnd(uint32_t i, uint32_t, uint32_t now)
{
    flows[i].cwnd.Set(now / double(TCP_PAYLOAD));
}

void
OnRetransmission(uint32_t i, Ptr<const Packet>, const TcpHeader&, const Address&, const Address&, Ptr<const TcpSocketBase>)
{
    flows[i].retransmissions += isCounting;
}

void
OnPing(uint32_t i, uint16_t, Time rtt)
{
    if (isCounting)
    {
        stations[i].pings.push_back(rtt.GetSeconds());
    }
}

void
OnAssociated(uint32_t i, Mac48Address)
{
    stations[i].isAssociated = true;
}

void
TraceSocket(uint32_t i)
{
    auto socket = flows[i].source->GetSocket();
    if (!socket)
    {
        NS_FATAL_ERROR("flow " << i << " has no socket");
    }
    socket->TraceConnectWithoutContext("LastRTT", MakeBoundCallback(&OnRtt, i));
    socket->TraceConnectWithoutContext("CongestionWindow", MakeBoundCallback(&OnCwnd, i));
    socket->TraceConnectWithoutContext("Retransmission", MakeBoundCallback(&OnRetransmission, i));
}

uint64_t
Received(const Flow& f)
{
    return f.sink->GetTotalRx();
}

void
BeginCounting()
{
    isCounting = true;
    for (auto& f : flows)
    {
        f.bytesBefore = Received(f);
        f.rtt.Restart();
        f.cwnd.Restart();
    }
    for (auto& s : stations)
    {
        s.queue.Restart();
    }
}

Ptr<WifiMacQueue>
QueueOf(Ptr<WifiNetDevice> device)
{
    auto mac = device->GetMac();
    return mac->GetQosSupported() ? mac->GetTxopQueue(AC_BE) : mac->GetTxopQueue(AC_BE_NQOS);
}

double
PeakRssMib()
{
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024.0;
}

WifiStandard
StandardOf(const std::string& name)
{
    static const std::map<std::string, WifiStandard> all = {{"a", WIFI_STANDARD_80211a},
                                                            {"b", WIFI_STANDARD_80211b},
                                                            {"g", WIFI_STANDARD_80211g},
                                                            {"n", WIFI_STANDARD_80211n},
                                                            {"ac", WIFI_STANDARD_80211ac}};
    const auto found = all.find(name);
    if (found == all.end())
    {
        NS_FATAL_ERROR("--standard is a, b, g, n or ac, not " << name);
    }
    return found->second;
}

void
SetDefaults()
{
    Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold", UintegerValue(o.rts));
    Config::SetDefault("ns3::WifiRemoteStationManager::FragmentationThreshold", UintegerValue(65535));
    Config::SetDefault("ns3::WifiRemoteStationManager::IncrementRetryCountUnderBa", BooleanValue(o.baRetries));
    Config::SetDefault("ns3::WifiMac::FrameRetryLimit", UintegerValue(o.retries));
    Config::SetDefault("ns3::WifiMac::MpduBufferSize", UintegerValue(o.buffer));
    Config::SetDefault("ns3::WifiMac::BE_MaxAmpduSize", UintegerValue(o.ampdu));
    Config::SetDefault("ns3::WifiMac::BE_MaxAmsduSize", UintegerValue(0));
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(o.lifetime)));
    // A weak signal fails by its SNR alone, not by a floor of -82 dBm.
    Config::SetDefault("ns3::ThresholdPreambleDetectionModel::MinimumRssi", DoubleValue(-110));
    Config::SetDefault("ns3::WifiPhy::RxSensitivity", DoubleValue(-110));

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + o.cc)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(TCP_PAYLOAD));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(o.initialWindow));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(o.buffers));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(o.buffers));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(o.delack));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(Seconds(o.delackMs / 1e3)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(o.minRtoMs / 1e3)));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(o.sack));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("Off"));
}

void
UseQueueDisc(NetDeviceContainer devices)
{
    // Assigning an address has installed ns-3's default.
    TrafficControlHelper tc;
    tc.Uninstall(devices);
    if (o.qdisc == "none")
    {
        return;
    }
    const std::string size = std::to_string(o.qdiscPackets) + "p";
    if (o.qdisc == "pfifo")
    {
        tc.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue(size));
    }
    else if (o.qdisc == "fq_codel")
    {
        tc.SetRootQueueDisc("ns3::FqCoDelQueueDisc", "MaxSize", StringValue(size), "UseEcn", BooleanValue(false));
    }
    else if (o.qdisc == "codel")
    {
        tc.SetRootQueueDisc("ns3::CoDelQueueDisc", "MaxSize", StringValue(size), "UseEcn", BooleanValue(false));
    }
    else
    {
        NS_FATAL_ERROR("--qdisc is none, pfifo, codel or fq_codel, not " << o.qdisc);
    }
    tc.Install(devices);
}

std::string
Quoted(const std::string& s)
{
    return "\"" + s + "\"";
}

} // namespace

int
main(int argc, char** argv)
{
    CommandLine cmd(__FILE__);
    cmd.AddValue("traffic", "tcp-up, tcp-down, tcp-both (up and down at each station), udp-up, none", o.traffic);
    cmd.AddValue("stations", "number of stations", o.stations);
    cmd.AddValue("duration", "simulated seconds with traffic", o.duration);
    cmd.AddValue("warmup", "of these, the first that no figure counts", o.warmup);
    cmd.AddValue("spread", "flows start over this many seconds", o.spread);
    cmd.AddValue("run", "run number of the random streams", o.run);
    cmd.AddValue("trace", "collect RTT, queue and frame statistics; without, goodput only (for timing)", o.trace);
    cmd.AddValue("standard", "a, b, g, n, ac", o.standard);
    cmd.AddValue("mode", "data mode of the constant manager, such as HtMcs7, VhtMcs8, OfdmRate54Mbps, ErpOfdmRate54Mbps, DsssRate11Mbps", o.mode);
    cmd.AddValue("control", "mode of RTS and the like; answers follow the basic rates", o.control);
    cmd.AddValue("manager", "constant, minstrel-ht, minstrel, ideal", o.manager);
    cmd.AddValue("width", "channel width in MHz", o.width);
    cmd.AddValue("ampdu", "largest A-MPDU in bytes; 0: none", o.ampdu);
    cmd.AddValue("buffer", "MPDUs in a Block Ack window, and so in an A-MPDU", o.buffer);
    cmd.AddValue("rts", "RTS threshold in bytes", o.rts);
    cmd.AddValue("retries", "attempts at a frame (FrameRetryLimit)", o.retries);
    cmd.AddValue("ba-retries", "let the limit count under Block Ack as well, but only A-MPDUs without any answer; without it such MPDUs are never given up", o.baRetries);
    cmd.AddValue("beacon", "beacon interval in seconds, a multiple of 1.024 ms", o.beacon);
    cmd.AddValue("hidden", "stations do not hear one another", o.hidden);
    cmd.AddValue("snr", "SNR between all devices in dB", o.snr);
    cmd.AddValue("errors", "error model: table, nist, yans", o.errors);
    cmd.AddValue("error-up", "error rate at the AP of an MPDU with a 1500-byte packet", o.errorUp);
    cmd.AddValue("error-down", "the same at the stations", o.errorDown);
    cmd.AddValue("queue", "packets in a station's MAC queue, those in flight included", o.queue);
    cmd.AddValue("ap-queue", "packets in the AP's MAC queue, for all stations together", o.apQueue);
    cmd.AddValue("lifetime", "seconds in a MAC queue after which a packet is dropped", o.lifetime);
    cmd.AddValue("qdisc", "queue disc of the stations: none, pfifo, codel, fq_codel", o.qdisc);
    cmd.AddValue("qdisc-packets", "its limit", o.qdiscPackets);
    cmd.AddValue("cc", "TcpCubic, TcpNewReno, TcpLinuxReno, TcpBbr", o.cc);
    cmd.AddValue("initial-window", "segments", o.initialWindow);
    cmd.AddValue("sack", "selective acknowledgements", o.sack);
    cmd.AddValue("delack", "segments per ACK", o.delack);
    cmd.AddValue("delack-ms", "delayed ACK timer", o.delackMs);
    cmd.AddValue("min-rto-ms", "smallest retransmission timeout", o.minRtoMs);
    cmd.AddValue("buffers", "bytes of each socket buffer", o.buffers);
    cmd.AddValue("ping", "seconds between pings of each station to the server; 0: none", o.ping);
    cmd.AddValue("backlog", "packets that a UDP sender keeps queued", o.backlog);
    cmd.AddValue("downs", "this many of the stations, from the first, have a TCP download (tcp-up: beside the upload)", o.downs);
    cmd.AddValue("wired-ms", "one-way delay between AP and server", o.wiredMs);
    cmd.Parse(argc, argv);

    const bool isHt = o.standard == "n" || o.standard == "ac";
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(o.run);
    SetDefaults();

    NodeContainer staNodes(o.stations);
    NodeContainer apNode(1);
    NodeContainer server(1);

    const WifiPhyBand band = Band();
    // Thermal noise and the receiver's noise figure, as the PHY reckons them.
    const double noiseFigure = 7;
    const double noiseDbm = 10 * std::log10(1.3803e-23 * 290 * o.width * 1e6 * 1e3) + noiseFigure;
    const double powerDbm = 16.0206;

    auto channel = CreateObject<YansWifiChannel>();
    channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
    auto loss = CreateObject<MatrixPropagationLossModel>();
    loss->SetDefaultLoss(powerDbm - (noiseDbm + o.snr));
    channel->SetPropagationLossModel(loss);

    YansWifiPhyHelper phy;
    phy.SetChannel(channel);
    phy.Set("TxPowerStart", DoubleValue(powerDbm));
    phy.Set("TxPowerEnd", DoubleValue(powerDbm));
    phy.Set("RxNoiseFigure", DoubleValue(noiseFigure));
    phy.Set("ChannelSettings",
            StringValue("{0, " + std::to_string(o.standard == "b" ? 22 : o.width) + ", " +
                        (band == WIFI_PHY_BAND_2_4GHZ ? "BAND_2_4GHZ" : "BAND_5GHZ") + ", 0}"));
    const std::map<std::string, std::string> models = {{"table", "ns3::TableBasedErrorRateModel"},
                                                       {"nist", "ns3::NistErrorRateModel"},
                                                       {"yans", "ns3::YansErrorRateModel"}};
    if (!models.count(o.errors))
    {
        NS_FATAL_ERROR("--errors is table, nist or yans, not " << o.errors);
    }
    phy.SetErrorRateModel(models.at(o.errors));

    WifiHelper wifi;
    wifi.SetStandard(StandardOf(o.standard));
    if (o.manager == "constant")
    {
        wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                     "DataMode",
                                     StringValue(o.mode),
                                     "ControlMode",
                                     StringValue(o.control));
    }
    else if (o.manager == "minstrel-ht")
    {
        wifi.SetRemoteStationManager("ns3::MinstrelHtWifiManager");
    }
    else if (o.manager == "minstrel")
    {
        wifi.SetRemoteStationManager("ns3::MinstrelWifiManager");
    }
    else if (o.manager == "ideal")
    {
        wifi.SetRemoteStationManager("ns3::IdealWifiManager");
    }
    else
    {
        NS_FATAL_ERROR("--manager is constant, minstrel-ht, minstrel or ideal, not " << o.manager);
    }

    const Ssid ssid("bss");
    WifiMacHelper mac;
    mac.SetType("ns3::StaWifiMac",
                "Ssid",
                SsidValue(ssid),
                "ActiveProbing",
                BooleanValue(false),
                "WaitBeaconTimeout",
                TimeValue(Seconds(1.2 * o.beacon)));
    auto staDevices = wifi.Install(phy, mac, staNodes);
    mac.SetType("ns3::ApWifiMac",
                "Ssid",
                SsidValue(ssid),
                "BeaconInterval",
                TimeValue(MicroSeconds(1024 * std::lround(o.beacon * 1e6 / 1024))),
                "EnableBeaconJitter",
                BooleanValue(false));
    auto apDevice = wifi.Install(phy, mac, apNode);
    WifiHelper::AssignStreams(staDevices, 1000);
    WifiHelper::AssignStreams(apDevice, 100000);

    MobilityHelper mobility;
    mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mobility.Install(staNodes);
    mobility.Install(apNode);
    if (o.hidden)
    {
        for (uint32_t i = 0; i < o.stations; ++i)
        {
            for (uint32_t j = i + 1; j < o.stations; ++j)
            {
                loss->SetLoss(staNodes.Get(i)->GetObject<MobilityModel>(),
                              staNodes.Get(j)->GetObject<MobilityModel>(),
                              300);
            }
        }
    }

    PointToPointHelper wire;
    wire.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    wire.SetChannelAttribute("Delay", TimeValue(Seconds(o.wiredMs / 1e3)));
    wire.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("100000p"));
    auto wired = wire.Install(apNode.Get(0), server.Get(0));

    InternetStackHelper internet;
    internet.SetIpv6StackInstall(false);
    internet.Install(staNodes);
    internet.Install(apNode);
    internet.Install(server);
    Ipv4AddressHelper addresses("10.1.0.0", "255.255.0.0");
    NetDeviceContainer wireless(staDevices, apDevice);
    auto wirelessAddresses = addresses.Assign(wireless);
    addresses.SetBase("10.2.0.0", "255.255.255.0");
    auto wiredAddresses = addresses.Assign(wired);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    UseQueueDisc(staDevices);
    TrafficControlHelper bare;
    bare.Uninstall(apDevice);
    bare.Uninstall(wired);

    stations.resize(o.stations + 1);
    for (uint32_t i = 0; i < wireless.GetN(); ++i)
    {
        auto device = DynamicCast<WifiNetDevice>(wireless.Get(i));
        const bool isAp = i == o.stations;
        QueueOf(device)->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, isAp ? o.apQueue : o.queue));
        if (!isAp)
        {
            device->GetMac()->TraceConnectWithoutContext("Assoc", MakeBoundCallback(&OnAssociated, i));
        }
        const double rate = isAp ? o.errorUp : o.errorDown;
        if (rate > 0)
        {
            auto model = CreateObject<LengthErrorModel>();
            model->SetRate(rate);
            device->GetPhy()->SetPostReceptionErrorModel(model);
        }
        if (o.trace)
        {
            auto m = device->GetMac();
            QueueOf(device)->TraceConnectWithoutContext("PacketsInQueue", MakeBoundCallback(&OnQueue, i));
            device->GetNode()->GetObject<TrafficControlLayer>()->TraceConnectWithoutContext("TcDrop", MakeBoundCallback(&OnRefused, i));
            device->GetPhy()->TraceConnectWithoutContext("PhyTxPsduBegin", MakeBoundCallback(&OnTransmit, i));
            m->TraceConnectWithoutContext("AckedMpdu", MakeBoundCallback(&OnAcked, i));
            m->TraceConnectWithoutContext("NAckedMpdu", MakeBoundCallback(&OnNacked, i));
            m->TraceConnectWithoutContext("DroppedMpdu", MakeBoundCallback(&OnDropped, i));
            m->TraceConnectWithoutContext("MpduResponseTimeout", MakeBoundCallback(&OnMpduTimeout, i));
            m->TraceConnectWithoutContext("PsduResponseTimeout", MakeBoundCallback(&OnPsduTimeout, i));
        }
    }

    const Time begin = Seconds(std::max(1.0, 3 * o.beacon) + 0.01 * o.stations);
    auto random = CreateObject<UniformRandomVariable>();
    random->SetStream(7);
    const auto startTime = [&] { return begin + Seconds(random->GetValue(0, std::max(o.spread, 1e-6))); };
    const auto addSink = [&](Ptr<Node> node, const std::string& factory, uint16_t port) {
        PacketSinkHelper sink(factory, InetSocketAddress(Ipv4Address::GetAny(), port));
        auto apps = sink.Install(node);
        apps.Start(Seconds(0));
        return DynamicCast<PacketSink>(apps.Get(0));
    };
    const auto addBulk = [&](uint32_t station, bool isUp) {
        const uint16_t port = (isUp ? 10000 : 20000) + station;
        auto sta = staNodes.Get(station);
        Flow flow;
        flow.station = station;
        flow.isUp = isUp;
        flow.sink = addSink(isUp ? server.Get(0) : sta, "ns3::TcpSocketFactory", port);
        const Ipv4Address to = isUp ? wiredAddresses.GetAddress(1) : wirelessAddresses.GetAddress(station);
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(to, port));
        bulk.SetAttribute("SendSize", UintegerValue(10 * TCP_PAYLOAD));
        auto apps = bulk.Install(isUp ? sta : server.Get(0));
        const Time start = startTime();
        apps.Start(start);
        flow.source = DynamicCast<BulkSendApplication>(apps.Get(0));
        flows.push_back(flow);
        if (o.trace)
        {
            Simulator::Schedule(start + NanoSeconds(1), &TraceSocket, uint32_t(flows.size() - 1));
        }
    };
    std::vector<Ptr<SaturatedSource>> saturated;
    for (uint32_t i = 0; i < o.stations; ++i)
    {
        if (o.traffic == "tcp-up" || o.traffic == "tcp-both")
        {
            addBulk(i, true);
        }
        if (o.traffic == "tcp-down" || o.traffic == "tcp-both" || i < o.downs)
        {
            addBulk(i, false);
        }
        if (o.traffic == "udp-up")
        {
            Flow flow;
            flow.station = i;
            flow.isUp = true;
            flow.sink = addSink(server.Get(0), "ns3::UdpSocketFactory", 10000 + i);
            flows.push_back(flow);
            auto source = CreateObject<SaturatedSource>();
            source->Setup(DynamicCast<WifiNetDevice>(staDevices.Get(i)),
                          InetSocketAddress(wiredAddresses.GetAddress(1), 10000 + i));
            staNodes.Get(i)->AddApplication(source);
            source->SetStartTime(startTime());
            saturated.push_back(source);
        }
        if (o.ping > 0)
        {
            PingHelper ping(wiredAddresses.GetAddress(1));
            ping.SetAttribute("Interval", TimeValue(Seconds(o.ping)));
            ping.SetAttribute("Size", UintegerValue(56));
            ping.SetAttribute("VerboseMode", EnumValue(Ping::VerboseMode::SILENT));
            auto apps = ping.Install(staNodes.Get(i));
            apps.Start(startTime());
            // It asks for a stop time, to reserve memory.
            apps.Stop(begin + Seconds(o.duration));
            apps.Get(0)->TraceConnectWithoutContext("Rtt", MakeBoundCallback(&OnPing, i));
        }
    }
    if (o.traffic != "none" && flows.empty())
    {
        NS_FATAL_ERROR("--traffic is tcp-up, tcp-down, tcp-both, udp-up or none, not " << o.traffic);
    }

    const auto clock = [] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    const auto cpu = [] {
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    };
    Simulator::Stop(begin - NanoSeconds(1));
    Simulator::Run();
    for (uint32_t i = 0; i < o.stations; ++i)
    {
        if (!stations[i].isAssociated)
        {
            NS_FATAL_ERROR("station " << i << " is not associated after " << begin.As(Time::S));
        }
    }
    // Association has emptied the ARP caches. Without entries ARP holds three packets and drops the rest of a burst.
    NeighborCacheHelper().PopulateNeighborCache();
    const double rssBefore = PeakRssMib();
    const uint64_t eventsBefore = Simulator::GetEventCount();
    Simulator::Schedule(Seconds(o.warmup), &BeginCounting);
    Simulator::Stop(Seconds(o.duration));
    const double wallBefore = clock();
    const double cpuBefore = cpu();
    Simulator::Run();
    const double wall = clock() - wallBefore;
    const double cpuSeconds = cpu() - cpuBefore;
    const uint64_t events = Simulator::GetEventCount() - eventsBefore;

    const double counted = o.duration - o.warmup;
    std::ostringstream out;
    out.precision(9);
    out << "{\"ns3\": \"3.44\", \"settings\": {";
    out << "\"traffic\": " << Quoted(o.traffic) << ", \"stations\": " << o.stations << ", \"duration_s\": " << o.duration
        << ", \"warmup_s\": " << o.warmup << ", \"spread_s\": " << o.spread << ", \"run\": " << o.run
        << ", \"trace\": " << (o.trace ? "true" : "false") << ", \"standard\": " << Quoted(o.standard)
        << ", \"band\": " << Quoted(band == WIFI_PHY_BAND_2_4GHZ ? "2.4 GHz" : "5 GHz") << ", \"width_mhz\": " << o.width
        << ", \"guard_interval\": \"long\", \"streams\": 1, \"manager\": " << Quoted(o.manager);
    if (o.manager == "constant")
    {
        out << ", \"mode\": " << Quoted(o.mode) << ", \"control_mode\": " << Quoted(o.control);
    }
    out << ", \"ampdu_bytes\": " << (isHt ? o.ampdu : 0) << ", \"ppdu_max_us\": " << (isHt ? 5484 : 0) << ", \"amsdu_bytes\": 0, \"block_ack_window\": " << o.buffer
        << ", \"rts_threshold_bytes\": " << o.rts << ", \"attempts\": " << o.retries
        << ", \"attempts_limited_under_block_ack\": " << (o.baRetries ? "true" : "false")
        << ", \"beacon_s\": " << o.beacon << ", \"hidden\": " << (o.hidden ? "true" : "false") << ", \"snr_db\": " << o.snr
        << ", \"error_model\": " << Quoted(o.errors) << ", \"error_up\": " << o.errorUp << ", \"error_down\": " << o.errorDown
        << ", \"queue_packets\": " << o.queue << ", \"ap_queue_packets\": " << o.apQueue
        << ", \"queue_lifetime_s\": " << o.lifetime << ", \"qdisc\": " << Quoted(o.qdisc);
    if (o.qdisc != "none")
    {
        out << ", \"qdisc_packets\": " << o.qdiscPackets;
    }
    out << ", \"cc\": " << Quoted(o.cc) << ", \"initial_window\": " << o.initialWindow
        << ", \"sack\": " << (o.sack ? "true" : "false") << ", \"timestamps\": true, \"ecn\": false, \"delack\": " << o.delack
        << ", \"delack_ms\": " << o.delackMs << ", \"min_rto_ms\": " << o.minRtoMs << ", \"socket_buffer_bytes\": " << o.buffers
        << ", \"ping_interval_s\": " << o.ping << ", \"backlog_packets\": " << o.backlog << ", \"downs\": " << o.downs
        << ", \"packet_bytes\": " << IP_BYTES << ", \"wired_mbit\": 1000, \"wired_ms\": " << o.wiredMs << "},\n";

    double up = 0;
    double down = 0;
    double squares = 0;
    uint64_t packets = 0;
    std::ostringstream list;
    list.precision(9);
    for (const auto& f : flows)
    {
        const uint64_t bytes = Received(f) - f.bytesBefore;
        const double rate = bytes * 8 / counted / 1e6;
        packets += Received(f) / (f.source ? TCP_PAYLOAD : UDP_PAYLOAD);
        (f.isUp ? up : down) += rate;
        squares += rate * rate;
        list << (&f == &flows.front() ? "\n  " : ",\n  ") << "{\"station\": " << f.station << ", \"direction\": \""
             << (f.isUp ? "up" : "down") << "\", \"goodput_mbit\": " << rate;
        if (o.trace && f.source)
        {
            list << ", \"rtt_mean_ms\": " << f.rtt.Mean() * 1e3 << ", \"rtt_max_ms\": " << f.rtt.largest * 1e3
                 << ", \"cwnd_mean_segments\": " << f.cwnd.Mean() << ", \"retransmissions\": " << f.retransmissions;
        }
        list << "}";
    }
    out << "\"wall_s\": " << wall << ", \"cpu_s\": " << cpuSeconds << ", \"simulated_s\": " << o.duration
        << ", \"wall_per_simulated_s\": " << wall / o.duration << ", \"rss_mib\": " << PeakRssMib()
        << ", \"rss_before_traffic_mib\": " << rssBefore << ", \"events\": " << events
        << ", \"packets_delivered\": " << packets << ",\n";
    out << "\"up_mbit\": " << up << ", \"down_mbit\": " << down << ", \"jain\": "
        << (squares > 0 ? (up + down) * (up + down) / (flows.size() * squares) : 0) << ",\n\"flows\": [" << list.str() << "]";

    if (o.trace)
    {
        out << ",\n\"stations\": [";
        uint64_t attempts = 0;
        uint64_t timeouts = 0;
        for (uint32_t i = 0; i < stations.size(); ++i)
        {
            const auto& s = stations[i];
            const bool isAp = i == o.stations;
            if (!isAp)
            {
                attempts += s.attempts;
                timeouts += s.timeouts;
            }
            out << (i ? ",\n  " : "\n  ") << "{\"name\": \"" << (isAp ? "ap" : "sta" + std::to_string(i))
                << "\", \"queue_mean_packets\": " << s.queue.Mean() << ", \"queue_max_packets\": " << s.queue.largest
                << ", \"data_ppdus\": " << s.attempts << ", \"data_mpdus\": " << s.mpdus << ", \"mpdus_per_ppdu\": "
                << (s.attempts ? double(s.mpdus) / s.attempts : 0) << ", \"mpdus_acked\": " << s.acked
                << ", \"mpdus_nacked\": " << s.nacked << ", \"ppdus_unanswered\": " << s.timeouts << ", \"mean_rate_mbit\": "
                << (s.attempts ? s.rateSum / s.attempts / 1e6 : 0) << ", \"drops\": {";
            static const char* const reasons[] = {"enqueue", "expired", "attempts", "old"};
            bool isFirst = true;
            if (s.refused)
            {
                out << "\"queue_full\": " << s.refused;
                isFirst = false;
            }
            for (const auto& [reason, count] : s.drops)
            {
                out << (isFirst ? "" : ", ") << "\"" << (reason < 4 ? reasons[reason] : "other") << "\": " << count;
                isFirst = false;
            }
            out << "}";
            if (!s.pings.empty())
            {
                double sum = 0;
                double largest = 0;
                for (const double p : s.pings)
                {
                    sum += p;
                    largest = std::max(largest, p);
                }
                out << ", \"pings\": " << s.pings.size() << ", \"ping_mean_ms\": " << sum / s.pings.size() * 1e3
                    << ", \"ping_max_ms\": " << largest * 1e3;
            }
            out << "}";
        }
        out << "],\n\"collision_probability\": " << (attempts ? double(timeouts) / attempts : 0) << ",\n\"frames\": {";
        bool isFirst = true;
        for (const auto& [key, count] : frames)
        {
            out << (isFirst ? "\n  " : ",\n  ") << "\"" << key << "\": {\"ppdus\": " << count.ppdus
                << ", \"mpdus\": " << count.mpdus << ", \"bytes\": " << count.bytes << ", \"airtime\": " << count.airtime / counted
                << "}";
            isFirst = false;
        }
        out << "}";
    }
    out << "}\n";
    std::cout << out.str();
    Simulator::Destroy();
    return 0;
}
